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
      'new-step': { setup: ['--dev', '--postgres'], file: 'bench/new-step/main.ts' },
      runners: { setup: DEV, file: 'bench/runners.ts' },
      serve: { setup: DEV, file: 'bench/serving/main.ts' },
      store: { setup: NO_MODEL, file: 'bench/store.ts' },
      train: { setup: DEV, file: 'bench/train.ts' },
    },
  },
  lab: {
    programs: {
      learn: { setup: [], file: 'examples/learning/main.ts' },
      tour: { setup: ['--dev', '--no-model', '--browser'], file: 'scripts/tour.ts' },
      simulate: { setup: DEV, file: 'bench/simulate/main.ts' },
      mutants: { setup: NO_MODEL, file: 'scripts/mutants.mjs' },
      prove: { setup: ['--dev', '--no-model', '--postgres'], file: 'scripts/prove.mjs' },
      'prove-mutants': { setup: ['--dev', '--no-model', '--postgres'], file: 'scripts/prove-mutants.mjs' },
      'scale-out': { setup: NO_MODEL, file: 'scripts/check-scale-out.ts' },
      agents: { setup: NO_MODEL, file: 'scripts/agents-suite.mjs' },
      bf16: { setup: ['--dev', '--bf16'], file: 'scripts/bf16-suite.mjs' },
      mlflow: { setup: NO_MODEL, file: 'scripts/mlflow-suite.mjs' },
      networks: { setup: ['--dev', '--python'], file: 'scripts/networks-suite.mjs' },
      s3: { setup: ['--dev', '--postgres'], file: 'scripts/s3-suite.mjs' },
      skyrl: { setup: DEV, file: 'scripts/test-skyrl.ts' },
      templates: { setup: DEV, file: 'scripts/test-templates.ts' },
      together: { setup: ['--dev', '--python'], file: 'scripts/test-together.ts' },
      vllm: { setup: DEV, file: 'scripts/test-vllm.ts' },
      'vllm-suite': { setup: DEV, file: 'scripts/vllm-suite.mjs' },
      'record-tinker': { setup: DEV, file: 'scripts/record-tinker.ts' },
    },
  },
  example: {
    programs: {
      sft: { setup: [], file: 'examples/sft/main.ts' },
      verifiers: { setup: [], file: 'examples/verifiers/main.ts' },
    },
  },
  pack: {
    programs: {
      sdk: { setup: NO_MODEL, file: 'scripts/pack-sdk.mjs' },
      cli: { setup: ['--no-model'], file: 'scripts/pack-cli.mjs' },
    },
  },
};
