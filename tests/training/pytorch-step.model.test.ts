import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import {
  DEFAULT_LORA_CONFIG,
  freshOptimizerState,
  gradientNorm,
  openTrainer,
  resolveTrainingConfig,
  runTrainingJob,
  writeCheckpoint,
  type LoraTensor,
  type PackedRow,
  type TrainablePolicy,
  type Trainer,
  type TrainingConfigInput,
  EmbeddedLearner,
  LocalVersions,
  ProgressFiles,
} from '@trainyard/trainer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { testModel } from '../support/model.ts';
import { perturbAdapter } from '../support/perturbed-adapter.ts';
import {
  difference,
  isPytorchModel,
  pytorchGradients,
  pytorchJobs,
  pytorchReference,
  sequenceRow,
  trainerGroups,
} from '../support/pytorch-fixture.ts';

/** One training step equals PyTorch's, computed once by lab/pytorch/make-fixture.ts. */

const jobs = pytorchJobs();
const reference = pytorchReference();
const gradients = pytorchGradients();
const NUM_PROJECTIONS = 8;
/**
 * Cases that are also trained in many rows: one whose ratio is of a whole sequence, and one with a pass before
 * the step. `run-training-job.test.ts` compares rows under every setting, with a tiny policy.
 */
const IN_ROWS = ['sequence level and tau', 'recomputed and truncated'];
/** Linear layers of the default model. */
const PEFT_NAMES: Readonly<Partial<Record<LoraTensor['linear'], string>>> = {
  q: 'self_attn.q_proj',
  k: 'self_attn.k_proj',
  v: 'self_attn.v_proj',
  o: 'self_attn.o_proj',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  down: 'mlp.down_proj',
};

const directory = mkdtempSync(join(tmpdir(), 'trainyard-pytorch-step-'));
let trainer: Trainer;
let model: TrainablePolicy;

beforeAll(async () => {
  trainer = await openTrainer({ modelPath: testModel().base, numThreads: 1 });
  model = await trainer.policy(DEFAULT_LORA_CONFIG);
  perturbAdapter(model.lora);
  const { lora, architecture } = model;
  const optimizer = freshOptimizerState(lora.tensors);
  writeCheckpoint(join(directory, 'perturbed'), { lora, architecture, optimizer, metrics: {} });
}, 300_000);

afterAll(() => {
  trainer.close();
  rmSync(directory, { recursive: true });
});

interface Recorded {
  readonly row: PackedRow;
  readonly logprobs: Float32Array;
}

/**
 * Trains one step at learning rate 0 from the perturbed checkpoint: keeps the gradients and the unchanged
 * weights.
 *
 * @param further Settings in addition to those of the case.
 */
async function gradientsOf(
  name: string,
  further: TrainingConfigInput = {},
): Promise<{ metrics: Readonly<Record<string, number>>; forwards: Recorded[] }> {
  const forwards: Recorded[] = [];
  const recording: TrainablePolicy = {
    architecture: model.architecture,
    lora: model.lora,
    forward: async (row, options) => {
      const result = await model.forward(row, options);
      if (options?.keepForBackward) forwards.push({ row, logprobs: result.logprobs.slice() });
      return result;
    },
    backward: async (lossGradient, options) => await model.backward(lossGradient, options),
    close: () => {},
  };
  const { numGradientSteps, metrics } = await runTrainingJob(
    {
      jobId: name,
      groups: trainerGroups(jobs.groups),
      config: resolveTrainingConfig({ ...camelCased(jobs.cases[name]!), learningRate: 0, ...further }),
      lora: DEFAULT_LORA_CONFIG,
      startFrom: join(directory, 'perturbed'),
      snapshots: join(directory, `${name}-work`),
      output: join(directory, name),
      seed: 1,
    },
    {
      learner: new EmbeddedLearner({ policy: recording, versions: new LocalVersions() }),
      progress: new ProgressFiles(),
      template: trainer.template,
      signal: new AbortController().signal,
      emit: () => {},
    },
  );
  expect(numGradientSteps).toBe(1);
  return { metrics, forwards };
}

type WholeStep = Awaited<ReturnType<typeof gradientsOf>> & {
  /** the adapter with the gradients of this step */
  readonly tensors: readonly LoraTensor[];
};

/** Step with one row of each case, computed by the first test that needs it. */
const wholeSteps = new Map<string, Promise<WholeStep>>();

function wholeStep(name: string): Promise<WholeStep> {
  const known = wholeSteps.get(name);
  if (known !== undefined) return known;
  const computed = gradientsOf(name).then((step) => ({
    ...step,
    tensors: model.lora.tensors.map((tensor) => ({ ...tensor, gradient: tensor.gradient.slice() })),
  }));
  wholeSteps.set(name, computed);
  return computed;
}

const camelCased = (wire: object): TrainingConfigInput =>
  Object.fromEntries(
    Object.entries(wire).map(([key, value]) => [
      key.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );

const peftName = ({ layer, linear, half }: LoraTensor): string =>
  `base_model.model.model.layers.${layer}.${PEFT_NAMES[linear]}.lora_${half.toUpperCase()}.weight`;

/** A row of +1 and -1, the same as in lab/pytorch/reference_step.py. */
function sign(index: number, projection: number): number {
  let x = (Math.imul(index, 0x9e3779b9) + projection + 1) | 0;
  for (const multiplier of [0x21f0aaad, 0x735a2d97]) x = Math.imul(x ^ (x >>> 16), multiplier);
  return (x >>> 15) & 1 ? 1 : -1;
}

/**
 * Estimates ‖ours − theirs‖ / ‖theirs‖ from signed sums of both: over all signs, the mean square of such a sum is the squared norm.
 */
function estimatedError({ gradient }: LoraTensor, projections: Float32Array, norm: number): number {
  let squares = 0;
  for (let p = 0; p < NUM_PROJECTIONS; p++) {
    let sum = 0;
    gradient.forEach((value, i) => (sum += sign(i, p) * value));
    squares += (sum - projections[p]!) ** 2;
  }
  return Math.sqrt(squares / NUM_PROJECTIONS) / norm;
}

function exactError(ours: Float32Array, theirs: Float32Array): number {
  let [squares, total] = [0, 0];
  theirs.forEach((value, i) => {
    squares += (ours[i]! - value) ** 2;
    total += value ** 2;
  });
  return Math.sqrt(squares / total);
}

/** Log-probabilities keyed by all previous tokens and the token itself. */
function bySequence({ row, logprobs }: Recorded): Map<string, number> {
  const prefix = (index: number): string =>
    index === -1 ? '' : `${prefix(row.parents[index]!)} ${row.tokenIds[index]}`;
  return new Map(Array.from(row.sources, (source, i) => [`${prefix(source)} ${row.targets[i]}`, logprobs[i]!]));
}

describe.skipIf(!isPytorchModel(reference))(
  `PyTorch ${reference.versions['torch']}, PEFT ${reference.versions['peft']}`,
  () => {
    it('gives the probe the same log-probabilities under an adapter', async () => {
      const { logprobs } = await model.forward(sequenceRow(jobs.probe));
      const { mean, max } = difference(logprobs, reference.perturbed.probe);
      const effect = difference(reference.perturbed.probe, reference.chain[0]!.probe).mean;
      console.log(
        `probe of ${logprobs.length} tokens: |Δlogprob| mean ${mean.toExponential(1)}, max ${max.toExponential(1)}; the adapter's own effect ${effect.toFixed(3)}`,
      );
      expect(logprobs).toHaveLength(256);
      expect(effect).toBeGreaterThan(0.05);
      expect(max).toBeLessThan(1e-3);
    }, 120_000);

    it.each(Object.keys(jobs.cases))(
      '%s: the same loss, log-probabilities and gradients',
      async (name) => {
        const expected = reference.cases[name]!;
        const { metrics, forwards, tensors } = await wholeStep(name);
        const [forward] = forwards as [Recorded];
        expect(forwards).toHaveLength(1);

        const ours = bySequence(forward);
        const pairs = reference.histories.flatMap(({ token_ids: ids, trained }, history) =>
          trained.flatMap((place, i): [number, number][] => {
            const logprob = ours.get(` ${ids.slice(0, place + 1).join(' ')}`);
            return logprob === undefined ? [] : [[logprob, reference.perturbed.logprobs[history]![i]!]];
          }),
        );
        expect(pairs).toHaveLength(forward.row.targets.length);
        const gap = difference(
          pairs.map(([a]) => a),
          pairs.map(([, b]) => b),
        );

        const norms = gradients.get(`${name}: norms`)!.data;
        const projections = gradients.get(`${name}: projections`)!.data;
        const byName = new Map(tensors.map((tensor) => [peftName(tensor), tensor]));
        const estimated = reference.tensors.map((tensorName, i) =>
          estimatedError(
            byName.get(tensorName)!,
            projections.subarray(i * NUM_PROJECTIONS, (i + 1) * NUM_PROJECTIONS),
            norms[i]!,
          ),
        );
        const exact = reference.tensors.flatMap((tensorName) => {
          const theirs = gradients.get(`${name}: ${tensorName}`);
          return theirs === undefined ? [] : [exactError(byName.get(tensorName)!.gradient, theirs.data)];
        });
        const show = (values: readonly number[]) => Math.max(...values).toExponential(1);
        console.log(
          [
            `${name}: ${pairs.length} tokens, |Δlogprob| mean ${gap.mean.toExponential(1)}, max ${gap.max.toExponential(1)}`,
            `loss ${metrics['policy_loss']!.toFixed(6)} (PyTorch ${expected.loss.toFixed(6)})`,
            `gradient norm ${metrics['grad_norm']!.toFixed(5)} (${expected.grad_norm.toFixed(5)})`,
            `relative gradient error, worst of ${estimated.length} tensors ${show(estimated)}, of ${exact.length} whole ones ${exact.length === 0 ? '-' : show(exact)}`,
            `PyTorch in float32 ${expected.float32.worst_gradient.toExponential(1)}`,
          ].join('; '),
        );
        expect(byName.size).toBe(estimated.length);
        expect(gap.max).toBeLessThan(1e-3);
        expect(Math.abs(metrics['policy_loss']! - expected.loss)).toBeLessThan(1e-3);
        expect(gradientNorm(tensors) / expected.grad_norm).toBeCloseTo(1, 3);
        expect(Math.max(...estimated)).toBeLessThan(1e-2);
        expect(Math.max(0, ...exact)).toBeLessThan(1e-2);
      },
      240_000,
    );

    it.each(IN_ROWS)(
      '%s: one step of many rows has the gradient of one row',
      async (name) => {
        const { metrics, tensors: expected } = await wholeStep(name);
        // As long as the longest conversation: one or two per row.
        const rowTokens = Math.max(...reference.histories.map(({ token_ids: ids }) => ids.length));
        const inRows = await gradientsOf(name, { packedSequenceLength: rowTokens, gradientSteps: 1 });
        const errors = model.lora.tensors.map(({ gradient }, i) => exactError(gradient, expected[i]!.gradient));
        const largest = Math.max(...errors);
        console.log(
          `${name}: ${inRows.metrics['num_rows']} rows of at most ${rowTokens} tokens, relative gradient difference, worst of ${errors.length} tensors ${largest.toExponential(1)}; ` +
            `norm ${inRows.metrics['grad_norm']!.toFixed(6)} and ${metrics['grad_norm']!.toFixed(6)}`,
        );
        expect(inRows.metrics['num_rows']).toBeGreaterThan(2);
        expect(largest).toBeLessThan(1e-3);
        // Products over other numbers of rows are rounded in another order: 1e-4 of each gradient, 2e-5 of a
        // loss near 1.
        expect(Math.abs(inRows.metrics['policy_loss']! - metrics['policy_loss']!)).toBeLessThan(1e-4);
      },
      240_000,
    );
  },
);
