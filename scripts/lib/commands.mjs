/**
 * Programs of `npm run bench`, `lab`, `example` and `pack`.
 *
 * @typedef {{ readonly setup: readonly string[], readonly file: string }} Program setup: flags of `scripts/bootstrap.mjs`
 * @typedef {{ readonly standard?: string, readonly programs: Readonly<Record<string, Program>> }} Command standard: the program without a name
 */

const DEV = ['--dev'];
const NO_MODEL = ['--dev', '--no-model'];

/** @type {Readonly<Record<string, Command>>} */
export const COMMANDS = {
  bench: {
    standard: 'speeds',
    programs: {
      speeds: { setup: DEV, file: 'bench/main.ts' },
      arbiter: { setup: DEV, file: 'bench/arbiter/main.ts' },
      bursts: { setup: DEV, file: 'bench/bursts.ts' },
      crowd: { setup: DEV, file: 'bench/crowd/main.ts' },
      dashboard: { setup: ['--dev', '--browser'], file: 'bench/dashboard.ts' },
      deterministic: { setup: DEV, file: 'bench/deterministic.ts' },
      gateway: { setup: NO_MODEL, file: 'bench/gateway/main.ts' },
      hostile: { setup: DEV, file: 'bench/hostile.ts' },
      loop: { setup: DEV, file: 'bench/loop/main.ts' },
      models: { setup: DEV, file: 'bench/models/main.ts' },
      'new-step': { setup: ['--dev', '--postgres'], file: 'bench/new-step/main.ts' },
      rollouts: { setup: ['--dev', '--postgres', '--no-model'], file: 'bench/rollouts.ts' },
      runners: { setup: DEV, file: 'bench/runners.ts' },
      serve: { setup: DEV, file: 'bench/serving/main.ts' },
      start: { setup: DEV, file: 'bench/start.ts' },
      step: { setup: DEV, file: 'bench/step.ts' },
      store: { setup: NO_MODEL, file: 'bench/store.ts' },
      train: { setup: DEV, file: 'bench/train.ts' },
      weights: { setup: DEV, file: 'bench/weights/main.ts' },
    },
  },
  lab: {
    programs: {
      learn: { setup: [], file: 'examples/learning/main.ts' },
      tour: { setup: ['--dev', '--no-model', '--browser'], file: 'lab/tour/main.ts' },
      simulate: { setup: DEV, file: 'bench/simulate/main.ts' },
      mutants: { setup: NO_MODEL, file: 'lab/mutants/main.mjs' },
      prove: { setup: ['--dev', '--no-model', '--postgres'], file: 'lab/schedules/prove.mjs' },
      'prove-mutants': { setup: ['--dev', '--no-model', '--postgres'], file: 'lab/schedules/prove-mutants.mjs' },
      'scale-out': { setup: NO_MODEL, file: 'lab/scale-out/main.ts' },
      agents: { setup: NO_MODEL, file: 'lab/agents/main.mjs' },
      bf16: { setup: ['--dev', '--bf16'], file: 'lab/bf16/main.mjs' },
      mlflow: { setup: NO_MODEL, file: 'lab/mlflow/main.mjs' },
      networks: { setup: ['--dev', '--python'], file: 'lab/networks/main.mjs' },
      s3: { setup: ['--dev', '--postgres'], file: 'lab/s3/main.mjs' },
      skyrl: { setup: DEV, file: 'lab/skyrl/main.ts' },
      templates: { setup: DEV, file: 'lab/templates/main.ts' },
      together: { setup: ['--dev', '--python'], file: 'lab/together/main.ts' },
      vllm: { setup: DEV, file: 'lab/vllm/main.ts' },
      'vllm-suite': { setup: DEV, file: 'lab/vllm-suite/main.mjs' },
      'record-tinker': { setup: DEV, file: 'lab/skyrl/record-tinker.ts' },
    },
  },
  example: {
    programs: {
      sft: { setup: [], file: 'examples/sft/main.ts' },
      verifiers: { setup: [], file: 'examples/verifiers/main.ts' },
      'reasoning-gym': { setup: [], file: 'examples/reasoning-gym/main.ts' },
    },
  },
  pack: {
    programs: {
      sdk: { setup: NO_MODEL, file: 'scripts/pack-sdk.mjs' },
      cli: { setup: ['--no-model'], file: 'scripts/pack-cli.mjs' },
    },
  },
};
