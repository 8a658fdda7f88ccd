import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HistoryItem } from '@trainyard/tokenizer';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import type { BackwardOptions, ForwardOptions, PackedRow } from '../model/policy-model.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { answer, byteTemplate, group, message } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import { runTrainingJob } from './run-training-job.ts';
import type { TrainerEvent, TrainingJob, TrainingParts } from './training-job.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'train-'));
});
afterEach(() => rm(directory, { recursive: true }));

// Rows of 45 tokens hold about one group each: about five gradient steps.
const GROUPS = ['one', 'two', 'three', 'four', 'five'].map((question) =>
  group(
    answer(1, `${question} yes`, question),
    answer(0, `${question} no`, question),
    answer(0.5, 'perhaps', question),
  ),
);
const SMALL_ROWS: TrainingConfigInput = { learningRate: 0.01, packedSequenceLength: 45, stepPerRow: true };
/** Two gradient steps of several rows. */
const ACCUMULATED: TrainingConfigInput = { learningRate: 0.01, packedSequenceLength: 45, gradientSteps: 2 };

function job(config: TrainingConfigInput = SMALL_ROWS, overrides: Partial<TrainingJob> = {}): TrainingJob {
  return {
    jobId: 'job',
    groups: GROUPS,
    config: resolveTrainingConfig(config),
    lora: BIGRAM_LORA,
    startFrom: null,
    snapshots: join(directory, 'work'),
    output: join(directory, 'out'),
    seed: 5,
    ...overrides,
  };
}

function parts({ model = new BigramPolicy(), ...overrides }: Partial<TrainingParts> & { model?: BigramPolicy } = {}) {
  const events: TrainerEvent[] = [];
  const gate = {
    numHeld: 0,
    isWanted: true,
    acquire: async () => void gate.numHeld++,
    release: () => void gate.numHeld--,
  };
  const all = {
    ...localParts({ policy: model, gate }),
    template: byteTemplate,
    signal: new AbortController().signal,
    emit: (event: TrainerEvent) => void events.push(event),
    ...overrides,
  };
  return { ...all, events, gate, model };
}

/** Event as repeated after a restart, without times. */
function reportedAgain(event: TrainerEvent): TrainerEvent {
  if (event.kind !== 'gradient_step') return event;
  const { taken: _taken, ...again } = event;
  return again;
}

const steps = (events: TrainerEvent[]) => events.filter((event) => event.kind === 'gradient_step');

it('an entropy bonus makes the policy less certain than it would be', async () => {
  const entropyAfter = async (entropyCoef: number) => {
    const running = parts();
    const output = join(directory, `out-${entropyCoef}`);
    // No advantage is 0, so that all jobs have the same tokens.
    const groups = GROUPS.map(({ trajectories: [first, second] }) => group(first!, second!));
    const config = { ...SMALL_ROWS, maxGradNorm: 10, entropyCoef };
    await runTrainingJob(job(config, { groups, output }), running);
    return steps(running.events).at(-1)!.metrics['entropy']!;
  };
  const [without, weak, strong] = [await entropyAfter(0), await entropyAfter(0.5), await entropyAfter(5)];
  console.log(`entropy of the last step: ${without}, ${weak}, ${strong} nats with 0, 0.5 and 5`);
  expect(weak).toBeGreaterThan(without);
  expect(strong).toBeGreaterThan(weak);
});

/** Gradients left by one step. */
async function gradientOf(config: TrainingConfigInput, groups = GROUPS) {
  const running = parts();
  const name = `gradient-${readdirSync(directory).length}`;
  const overrides = { groups, output: join(directory, name), snapshots: join(directory, `${name}-work`) };
  // Nonzero weights, because the gradient of `a` is 0 if `b` is.
  const startFrom = join(directory, 'perturbed');
  if (!existsSync(startFrom))
    await runTrainingJob(
      job({ learningRate: 0.05 }, { output: startFrom, snapshots: join(directory, 'perturbed-work') }),
      parts(),
    );
  await runTrainingJob(job({ ...config, learningRate: 0 }, { ...overrides, startFrom }), running);
  const [step, ...others] = steps(running.events);
  expect(others).toEqual([]);
  return {
    gradient: running.model.lora.tensors.flatMap(({ gradient }) => [...gradient]),
    metrics: step!.metrics,
    numForwards: running.model.numForwards,
  };
}

const largestDifference = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);

describe('an accumulated step', () => {
  it.each<[string, TrainingConfigInput]>([
    ['plain', {}],
    ['ppo', { ppo: true, epsilon: 0.01 }],
    ['sequence level, tau', { importanceSamplingLevel: 'sequence', kimiK2Tau: 0.2 }],
    ['KL term', { klPenaltyCoef: 0.5 }],
    ['KL term of the sample', { klPenaltyCoef: 0.5, klPenaltySource: 'sample' }],
    ['entropy bonus', { entropyCoef: 0.3 }],
    ['recomputed and truncated', { precalculateLogprobs: true, truncatedImportanceSampling: 0.9 }],
    ['by trajectory', { lossAggregation: 'trajectory' }],
    ['by token', { lossAggregation: 'token' }],
    ['by a constant', { lossAggregation: 'constant', lossAggregationLength: 8 }],
  ])('has the gradient and the metrics of all its rows at once (%s)', async (name, config) => {
    const atOnce = await gradientOf({ ...config, gradientSteps: 1 });
    const inRows = await gradientOf({ ...config, gradientSteps: 1, packedSequenceLength: 45 });
    const size = Math.max(...atOnce.gradient.map(Math.abs));
    const difference = largestDifference(atOnce.gradient, inRows.gradient) / size;
    console.log(
      `${name}: ${inRows.metrics['num_rows']} rows, largest relative difference ${difference.toExponential(1)}`,
    );
    expect(atOnce.metrics['num_rows']).toBe(1);
    expect(inRows.metrics['num_rows']).toBeGreaterThan(3);
    expect(size).toBeGreaterThan(1e-3);
    // Gradients are kept in single precision.
    expect(difference).toBeLessThan(2e-6);
    const compared = ([key]: [string, number]): boolean =>
      !/kl_base|kl_start|seconds|per_second|memory|rows|row_tokens/.test(key);
    for (const [key, value] of Object.entries(atOnce.metrics).filter(compared))
      expect(Math.abs(inRows.metrics[key]! - value), key).toBeLessThan(1e-6 * Math.max(1, Math.abs(value)));
  });

  it('holds whole groups, so that its advantages cancel; rows as steps do not', async () => {
    // 16 groups of 4 that pack badly: long answers, of which a row holds at most two.
    const many = Array.from({ length: 16 }, (_, index) => {
      const attempt = (reward: number, i: number) =>
        answer(reward, String.fromCodePoint(97 + i).repeat(20 + ((7 * index + 5 * i) % 11)), `q${index}`);
      return group(...[1, 0, 0.3, 0.1].map(attempt));
    });
    const means = async (config: TrainingConfigInput, name: string): Promise<number[]> => {
      const running = parts();
      const where = { snapshots: join(directory, `${name}-work`), output: join(directory, name) };
      await runTrainingJob(job({ ...config, packedSequenceLength: 100 }, { groups: many, ...where }), running);
      return steps(running.events).map(({ metrics }) => Math.abs(metrics['advantage_mean']!));
    };
    const whole = await means({ lossAggregation: 'normalized_trajectory' }, 'whole');
    const perRow = await means({ stepPerRow: true }, 'per-row');
    const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
    console.log(
      `|mean advantage| of a step, median: ${median(whole).toExponential(1)} in ${whole.length} steps of whole groups, ${median(perRow).toFixed(2)} in ${perRow.length} rows`,
    );
    expect(whole).toHaveLength(4);
    expect(perRow.length).toBeGreaterThan(8);
    expect(Math.max(...whole)).toBeLessThan(1e-6);
    expect(median(perRow)).toBeGreaterThan(0.05);
  });
});

describe('runTrainingJob', () => {
  it('emits the start, then one step for each row with finite metrics, and writes the checkpoint', async () => {
    const running = parts();
    const result = await runTrainingJob(job(), running);
    const [started, ...others] = running.events.filter(({ kind }) => kind !== 'warning');
    expect(started).toMatchObject({ kind: 'training_started', numGradientSteps: result.numGradientSteps });
    expect(started).toMatchObject({
      data: {
        num_sequences: result.numGradientSteps,
        num_groups_submitted: 5,
        num_trajectories_trainable: 10,
        dropped_trajectories: { zero_advantage: 5 },
      },
    });
    expect(others.map((event) => event.kind === 'gradient_step' && event.index)).toEqual(
      Array.from({ length: result.numGradientSteps }, (_, i) => i),
    );
    expect(result.numGradientSteps).toBeGreaterThan(3);
    for (const event of steps(running.events)) {
      expect(Object.entries(event.metrics).filter(([, value]) => !Number.isFinite(value))).toEqual([]);
      expect(event.metrics).toMatchObject({
        num_groups_submitted: 5,
        num_groups_trainable: 5,
        num_trajectories: 15,
        reward: 0.5,
        learning_rate: 0.01,
        exception_rate: 0,
      });
      const keys = [
        'policy_loss',
        'entropy',
        'grad_norm',
        'num_trainable_tokens',
        'clip_fraction',
        'ratio_mean',
        'ratio_max',
        'kl_sampler',
      ];
      expect(Object.keys(event.metrics)).toEqual(expect.arrayContaining(keys));
      // All sampled log-probabilities are equal, so their correlation is undefined and omitted.
      expect(event.metrics).not.toHaveProperty('probs_corr');
    }
    expect(result.digest).toBe(readFileSync(join(directory, 'out', 'digest'), 'utf8').trim());
    expect(result.metrics['reward_std_dev']).toBeCloseTo(Math.sqrt(1 / 6), 12);
    expect(running.gate.numHeld).toBe(0);
    expect(readdirSync(directory).toSorted()).toEqual(['out', 'work']);
  });

  it('gives the same digest for the same job and seed, and another for another seed', async () => {
    const first = await runTrainingJob(job(), parts());
    const again = await runTrainingJob(
      job(SMALL_ROWS, { snapshots: join(directory, 'work2'), output: join(directory, 'out2') }),
      parts(),
    );
    const other = await runTrainingJob(job(SMALL_ROWS, { snapshots: join(directory, 'work3'), seed: 6 }), parts());
    expect(again.digest).toBe(first.digest);
    expect(other.digest).not.toBe(first.digest);
  });

  it('raises the probability of rewarded answers and lowers that of the others', async () => {
    const policy = new BigramPolicy();
    const one = [group(answer(1, 'yes'), answer(0, 'no'))];
    const logprobSums = async (): Promise<number[]> => {
      const probe = parts({ model: policy });
      const seen: Float32Array[] = [];
      const original = policy.forward.bind(policy);
      policy.forward = async (row, options) => {
        const result = await original(row, options);
        if (options?.withoutAdapter !== true) seen.push(result.logprobs);
        return result;
      };
      await runTrainingJob(
        job(
          { learningRate: 0 },
          {
            groups: one,
            startFrom: existsSync(join(directory, 'out')) ? join(directory, 'out') : null,
            output: join(directory, 'probe'),
          },
        ),
        probe,
      );
      policy.forward = original;
      return [...seen[0]!];
    };
    const before = await logprobSums();
    await runTrainingJob(job({ learningRate: 0.05 }, { groups: one }), parts({ model: policy }));
    const after = await logprobSums();
    const gains = after.map((logprob, i) => logprob - before[i]!);
    console.log(`logprob gains per trained token after one step: ${gains.map((gain) => gain.toFixed(4)).join(' ')}`);
    // Histories were shuffled: one of the two starts the row. 'yes' has four tokens, 'no' three.
    const isYesFirst = gains[0]! > 0;
    const [yes, no] = isYesFirst ? [gains.slice(0, 4), gains.slice(4)] : [gains.slice(3), gains.slice(0, 3)];
    expect(yes.reduce((sum, gain) => sum + gain, 0)).toBeGreaterThan(0);
    expect(no.reduce((sum, gain) => sum + gain, 0)).toBeLessThan(0);
  });

  it.each<[string, TrainingConfigInput]>([
    ['plain', SMALL_ROWS],
    [
      'with recomputed log-probabilities and a KL term',
      { ...SMALL_ROWS, precalculateLogprobs: true, klPenaltyCoef: 0.1 },
    ],
    ['of several rows a step', ACCUMULATED],
    ['of several rows a step, with a KL term and a bonus', { ...ACCUMULATED, klPenaltyCoef: 0.1, entropyCoef: 0.1 }],
  ])('continues after being cut off, with the same events and the same digest (%s)', async (_name, config) => {
    const whole = parts();
    const expected = await runTrainingJob(
      job(config, { snapshots: join(directory, 'work-whole'), output: join(directory, 'whole') }),
      whole,
    );
    for (let cut = 0; cut < expected.numGradientSteps; cut++) {
      const snapshots = join(directory, `work-${cut}`);
      const output = join(directory, `out-${cut}`);
      const controller = new AbortController();
      const interrupted = parts({ signal: controller.signal });
      const emit = (event: TrainerEvent): void => {
        interrupted.events.push(event);
        if (event.kind === 'gradient_step' && event.index === cut) controller.abort();
      };
      const cutOff = runTrainingJob(job(config, { snapshots, output }), { ...interrupted, emit });
      await expect(cutOff).rejects.toMatchObject({ code: 'trainer.cancelled' });
      expect(existsSync(output)).toBe(false);
      expect(readdirSync(snapshots)).toEqual([
        'progress.json',
        `step-${Math.min(cut + 1, expected.numGradientSteps - 1)}`,
      ]);

      const resumed = parts();
      const result = await runTrainingJob(job(config, { snapshots, output }), resumed);
      expect(result.digest).toBe(expected.digest);
      expect(steps(resumed.events)).toHaveLength(expected.numGradientSteps);
      const finished = Math.min(cut + 1, expected.numGradientSteps - 1);
      // Repeated, not taken again.
      expect(resumed.events.slice(0, finished + 1)).toEqual(
        interrupted.events.slice(0, finished + 1).map(reportedAgain),
      );
      expect(steps(resumed.events).filter(({ taken }) => taken !== undefined)).toHaveLength(
        expected.numGradientSteps - finished,
      );
      const withoutTimes = (events: TrainerEvent[]) =>
        steps(events).map(({ metrics }) =>
          Object.entries(metrics).filter(([key]) => !/seconds|per_second|memory/.test(key)),
        );
      expect(withoutTimes(resumed.events)).toEqual(withoutTimes(whole.events));
    }
  });

  it('continues after a crash inside a step', async () => {
    const expected = await runTrainingJob(
      job(SMALL_ROWS, { snapshots: join(directory, 'w'), output: join(directory, 'o') }),
      parts(),
    );
    class Crashing extends BigramPolicy {
      override async forward(row: PackedRow, options?: ForwardOptions) {
        if (this.numForwards === 2) throw new Error('the process died');
        return super.forward(row, options);
      }
    }
    await expect(runTrainingJob(job(), parts({ model: new Crashing() }))).rejects.toMatchObject({
      code: 'trainer.internal',
      message: 'job job failed inside the trainer: the process died',
    });
    const resumed = parts();
    expect((await runTrainingJob(job(), resumed)).digest).toBe(expected.digest);
    expect(resumed.model.numBackwards).toBe(expected.numGradientSteps - 2);
  });

  it.each([false, true])('continues after a crash in any row of a step (cancelled: %s)', async (isCancelled) => {
    const expected = await runTrainingJob(
      job(ACCUMULATED, { snapshots: join(directory, 'w'), output: join(directory, 'o') }),
      parts(),
    );
    const counted = parts();
    await runTrainingJob(job(ACCUMULATED, { snapshots: join(directory, 'w2') }), counted);
    rmSync(join(directory, 'out'), { recursive: true });
    const { numBackwards } = counted.model;
    expect(expected.numGradientSteps).toBe(2);
    expect(numBackwards).toBeGreaterThan(4);
    for (let last = 0; last < numBackwards; last++) {
      const controller = new AbortController();
      class Crashing extends BigramPolicy {
        override async backward(lossGradient: Float32Array, options?: BackwardOptions) {
          await super.backward(lossGradient, options);
          if (this.numBackwards <= last) return;
          if (!isCancelled) throw new Error('the process died');
          controller.abort();
        }
      }
      const snapshots = join(directory, `work-${last}`);
      const crashing = parts({ model: new Crashing(), signal: controller.signal });
      await expect(runTrainingJob(job(ACCUMULATED, { snapshots }), crashing)).rejects.toMatchObject({
        code: isCancelled ? 'trainer.cancelled' : 'trainer.internal',
      });
      expect(existsSync(join(directory, 'out'))).toBe(false);
      const resumed = parts();
      const result = await runTrainingJob(job(ACCUMULATED, { snapshots }), resumed);
      expect(result.digest).toBe(expected.digest);
      expect(steps(resumed.events).map(({ index }) => index)).toEqual([0, 1]);
      rmSync(join(directory, 'out'), { recursive: true });
    }
  });

  it.each(['adapter_model.safetensors', 'optimizer.safetensors', 'adapter_config.json', 'digest', 'SHA256SUMS'])(
    'starts over when %s of the snapshot is damaged, and warns',
    async (name) => {
      const expected = await runTrainingJob(job(), parts());
      const [snapshot = ''] = readdirSync(join(directory, 'work')).filter((file) => file.startsWith('step-'));
      const path = join(directory, 'work', snapshot, name);
      const bytes = readFileSync(path);
      bytes[bytes.length - 2]! ^= 1;
      writeFileSync(path, bytes);
      const again = parts();
      expect((await runTrainingJob(job(), again)).digest).toBe(expected.digest);
      expect(again.model.numBackwards).toBe(expected.numGradientSteps);
      const warnings = again.events.flatMap((event) => (event.kind === 'warning' ? [event.warning] : []));
      expect(warnings.filter(({ code }) => code === 'snapshot_damaged')).toMatchObject([
        { value: expected.numGradientSteps - 1, message: expect.stringContaining(' is damaged') as string },
      ]);
    },
  );

  it('starts over when the record of its snapshot is damaged', async () => {
    const expected = await runTrainingJob(job(), parts());
    const path = join(directory, 'work', 'progress.json');
    const text = readFileSync(path, 'utf8');
    const digit = /[1-8]/.exec(text)!;
    writeFileSync(path, `${text.slice(0, digit.index)}9${text.slice(digit.index + 1)}`);
    const again = parts();
    expect((await runTrainingJob(job(), again)).digest).toBe(expected.digest);
    expect(again.model.numBackwards).toBe(expected.numGradientSteps);
  });

  it('starts over when the snapshot is of another job', async () => {
    const expected = await runTrainingJob(job(), parts());
    const other = parts();
    await runTrainingJob(job({ ...SMALL_ROWS, learningRate: 0.02 }), other);
    expect(other.model.numBackwards).toBe(expected.numGradientSteps);
  });

  it('continues from a checkpoint with its momentum', async () => {
    const first = job(SMALL_ROWS, { output: join(directory, 'step1'), snapshots: join(directory, 'w1') });
    await runTrainingJob(first, parts());
    const second = (name: string) =>
      job(SMALL_ROWS, {
        startFrom: join(directory, 'step1'),
        output: join(directory, name),
        snapshots: join(directory, `w-${name}`),
      });
    const withMomentum = await runTrainingJob(second('a'), parts());
    rmSync(join(directory, 'step1', 'optimizer.safetensors'));
    const without = await runTrainingJob(second('b'), parts());
    expect(withMomentum.digest).not.toBe(without.digest);
    const warm = { ...second('d'), startFrom: join(directory, 'step1'), withFreshOptimizer: true };
    expect((await runTrainingJob(warm, parts())).digest).toBe(without.digest);
    writeFileSync(join(directory, 'step1', 'digest'), 'something else');
    await expect(runTrainingJob(second('c'), parts())).rejects.toMatchObject({ code: 'trainer.checkpoint_damaged' });
  });

  it('changes nothing at learning rate 0, and measures a KL of 0 against the base model', async () => {
    const running = parts();
    const fresh = new BigramPolicy().lora.tensors.map(({ value }) => value);
    await runTrainingJob(job({ ...SMALL_ROWS, learningRate: 0, klPenaltyCoef: 0.5 }), running);
    expect(running.model.lora.tensors.map(({ value }) => value)).toEqual(fresh);
    for (const { metrics } of steps(running.events)) expect(metrics['kl_policy_ref']).toBe(0);
  });

  it('measures KL against the reference checkpoint it is given', async () => {
    await runTrainingJob(
      job({ ...SMALL_ROWS, learningRate: 0.1 }, { output: join(directory, 'step1'), snapshots: join(directory, 'w1') }),
      parts(),
    );
    const config = { ...SMALL_ROWS, learningRate: 0, klPenaltyCoef: 0.1, klPenaltyReferenceStep: 1 };
    const same = parts();
    const start = { startFrom: join(directory, 'step1'), snapshots: join(directory, 'w2') };
    await runTrainingJob(job(config, { ...start, referenceFrom: join(directory, 'step1') }), same);
    for (const { metrics } of steps(same.events)) expect(metrics['kl_policy_ref']).toBe(0);
    const base = parts();
    await runTrainingJob(job(config, { ...start, referenceFrom: null, snapshots: join(directory, 'w3') }), base);
    expect(steps(base.events).some(({ metrics }) => Math.abs(metrics['kl_policy_ref']!) > 1e-3)).toBe(true);
    await expect(runTrainingJob(job(config, start), parts())).rejects.toMatchObject({ code: 'trainer.config_invalid' });
    // Without a coefficient only the distance is reported.
    const watched = parts();
    const plain = { ...SMALL_ROWS, learningRate: 0.1 };
    const named = job(
      { ...plain, klPenaltyReferenceStep: 1 },
      { referenceFrom: join(directory, 'step1'), snapshots: join(directory, 'w4') },
    );
    const watchedResult = await runTrainingJob(named, watched);
    expect(steps(watched.events).some(({ metrics }) => metrics['kl_policy_ref_k3']! > 1e-3)).toBe(true);
    expect(steps(watched.events).every(({ metrics }) => metrics['seconds_reference']! >= 0)).toBe(true);
    const alone = await runTrainingJob(job(plain, { snapshots: join(directory, 'w5') }), parts());
    expect(watchedResult.digest).toBe(alone.digest);
  });

  it('warms up and decays over the gradient steps of all jobs', async () => {
    const config = {
      ...SMALL_ROWS,
      learningRate: 1,
      learningRateSchedule: 'linear',
      learningRateWarmupSteps: 1,
      learningRateDecaySteps: 5,
    } as const;
    const first = parts();
    await runTrainingJob(job(config, { output: join(directory, 'step1') }), first);
    const next = parts();
    const goesOn = { startFrom: join(directory, 'step1'), snapshots: join(directory, 'w2') };
    await runTrainingJob(job(config, goesOn), next);
    const rates = [...steps(first.events), ...steps(next.events)].map(({ metrics }) => metrics['learning_rate']);
    expect(rates.slice(0, 7)).toEqual([0.5, 1, 0.75, 0.5, 0.25, 0, 0]);
  });

  it('has ratio 1 at the first step on recomputed log-probabilities', async () => {
    const running = parts();
    await runTrainingJob(job({ ...SMALL_ROWS, precalculateLogprobs: true }), running);
    const [first, ...later] = steps(running.events);
    expect(first!.metrics).toMatchObject({ ratio_mean: 1, ratio_max: 1, clip_fraction: 0 });
    expect(first!.metrics['logprob_gap_mean']).toBeGreaterThan(0); // the gap is to the sampled ones
    expect(later.some(({ metrics }) => metrics['ratio_max'] !== 1)).toBe(true);
  });

  const typed = {
    reward: 1,
    histories: [{ items: [message('user', 'hi'), message('assistant', 'typed')], tools: null }],
  };
  it.each<[string, TrajectoryGroup[], object]>([
    ['no groups', [], {}],
    ['equal rewards', [group(answer(0.1, 'a'), answer(0.1, 'b'), answer(0.1, 'c'))], { equal_rewards: 3 }],
    ['exceptions only', [{ trajectories: [], numExceptions: 3 }], {}],
    ['nothing sampled', [group(typed, { ...typed, reward: 0 })], { missing_logprobs: 2 }],
  ])('trains nothing and writes nothing for %s', async (_name, groups, dropped) => {
    const running = parts();
    const result = await runTrainingJob(job({ ...SMALL_ROWS, learningRate: 'auto' }, { groups }), running);
    expect(result).toMatchObject({ numGradientSteps: 0, digest: null });
    const [started, ...others] = running.events;
    expect(started).toMatchObject({ kind: 'training_started', numGradientSteps: 0 });
    const codes = others.map((event) => (event.kind === 'warning' ? event.warning.code : event.kind));
    expect(codes).toEqual(['nothing_trained', ...('equal_rewards' in dropped ? ['equal_reward_groups'] : [])]);
    expect(running.events[0]).toMatchObject({ data: { num_sequences: 0, dropped_trajectories: dropped } });
    expect(readdirSync(directory)).toEqual([]);
    expect(running.model.numForwards).toBe(0);
  });

  class NanForward extends BigramPolicy {
    override async forward(row: PackedRow, options?: ForwardOptions) {
      const result = await super.forward(row, options);
      if (this.numForwards === 2) result.logprobs[0] = NaN;
      return result;
    }
  }
  class NanBackward extends BigramPolicy {
    override async backward(lossGradient: Float32Array) {
      await super.backward(lossGradient);
      this.lora.tensors[0]!.gradient[0] = NaN;
    }
  }
  it.each([
    ['log-probability', () => new NanForward(), SMALL_ROWS],
    ['gradient', () => new NanBackward(), SMALL_ROWS],
    ['recomputed log-probability', () => new NanForward(), { ...SMALL_ROWS, precalculateLogprobs: true }],
    ['weight', () => new BigramPolicy(), { ...SMALL_ROWS, learningRate: 3e38 }],
    // Weights of the last step, after which no step would notice.
    ['log-probability under the new weights', () => new BigramPolicy(), { gradientSteps: 1, learningRate: 1e38 }],
  ])('fails and publishes nothing when a %s is not finite', async (_name, model, config) => {
    const running = runTrainingJob(job(config), parts({ model: model() }));
    await expect(running).rejects.toMatchObject({ code: 'trainer.non_finite' });
    expect(existsSync(join(directory, 'out'))).toBe(false);
    expect(existsSync(join(directory, 'out.partial'))).toBe(false);
  });

  it('is cancelled before it starts', async () => {
    await expect(runTrainingJob(job(), parts({ signal: AbortSignal.abort() }))).rejects.toMatchObject({
      code: 'trainer.cancelled',
    });
    expect(readdirSync(directory)).toEqual([]);
  });
});

describe('other terms than the rewards', () => {
  const equal = [group(answer(0.1, 'yes'), answer(0.1, 'no')), group(answer(1, 'alone', 'two'))];
  const outcomes = (events: TrainerEvent[]) =>
    events.flatMap((event) => (event.kind === 'training_started' ? [event.data] : []))[0];

  it.each<[string, TrainingConfigInput, object]>([
    ['KL term', { klPenaltyCoef: 0.5 }, {}],
    ['entropy bonus', { entropyCoef: 0.5 }, {}],
    ['tau', { kimiK2Tau: 0.5 }, {}],
    ['no term', {}, { equal_rewards: 1, single_trajectory: 1 }],
    ['reference without a coefficient', { klPenaltyReferenceStep: 0 }, { equal_rewards: 1, single_trajectory: 1 }],
  ])('are fed by groups of equal rewards (%s)', async (_name, config, dropped) => {
    const running = parts();
    const result = await runTrainingJob(job(config, { groups: equal }), running);
    const isFed = Object.keys(dropped).length === 0;
    expect(outcomes(running.events)).toMatchObject({
      num_groups_trainable: 0,
      num_groups_regularized: isFed ? 2 : 0,
      num_trajectories_regularized: isFed ? 3 : 0,
      group_outcomes: isFed ? ['regularized', 'regularized'] : ['equal_rewards', 'single_trajectory'],
      dropped_groups: dropped,
    });
    expect(result.numGradientSteps).toBe(isFed ? 1 : 0);
    if (isFed) expect(result.metrics).toMatchObject({ num_groups_regularized: 2, num_trajectories_trained: 3 });
  });

  it('keep moving the policy when rewards have stopped differing', async () => {
    // First away from the base model, by rewards.
    const start = join(directory, 'start');
    await runTrainingJob(
      job({ learningRate: 0.1 }, { output: start, snapshots: join(directory, 'start-work') }),
      parts(),
    );
    const measured = async (config: TrainingConfigInput) => {
      let from = start;
      const values: Record<string, number>[] = [];
      for (let index = 0; index < 4; index++) {
        const running = parts();
        const output = join(directory, `${JSON.stringify(config)}-${index}`);
        const overrides = { groups: equal, startFrom: from, output, snapshots: `${output}-work` };
        await runTrainingJob(
          job({ learningRate: 0.05, withFreshOptimizer: true, ...config } as object, overrides),
          running,
        );
        values.push({ ...steps(running.events)[0]!.metrics });
        from = output;
      }
      return values;
    };
    const entropies = (await measured({ entropyCoef: 1 })).map((metrics) => metrics['entropy']!);
    const distances = (await measured({ klPenaltyCoef: 1 })).map((metrics) => metrics['kl_policy_ref_k3']!);
    console.log(
      `entropy ${entropies.map((value) => value.toFixed(4)).join(' ')}, KL ${distances.map((value) => value.toFixed(4)).join(' ')}`,
    );
    expect(entropies.at(-1)).toBeGreaterThan(entropies[0]!);
    expect(distances.at(-1)).toBeLessThan(distances[0]!);
  });

  it('take nothing from the strength of the rewards of the other groups', async () => {
    const learning = GROUPS.map(({ trajectories: [first, second] }) => group(first!, second!));
    const groups = [...learning, ...equal];
    const alone = await gradientOf({ kimiK2Tau: 1e-12, gradientSteps: 1 }, learning);
    const among = await gradientOf({ kimiK2Tau: 1e-12, gradientSteps: 1 }, groups);
    const difference = largestDifference(alone.gradient, among.gradient);
    const size = Math.max(...among.gradient.map(Math.abs));
    console.log(
      `${alone.metrics['num_histories_trained']} of ${among.metrics['num_histories_trained']} histories have an advantage: relative difference ${(difference / size).toExponential(1)}`,
    );
    expect(difference / size).toBeLessThan(1e-5);
  });
});

describe('a job in which no token has a gradient', () => {
  async function warningsOf(config: TrainingConfigInput, groups: TrajectoryGroup[]) {
    const running = parts();
    await runTrainingJob(job(config, { groups }), running);
    return running.events.flatMap((event) => (event.kind === 'warning' ? [event.warning] : []));
  }
  const nothing = async (config: TrainingConfigInput, groups: TrajectoryGroup[]) =>
    (await warningsOf(config, groups)).filter(({ code }) => code === 'nothing_trained');
  const equal = group(answer(1, 'a'), answer(1, 'b'));
  /** Choice drawn by a policy that was far more certain. */
  const stale = (item: HistoryItem): HistoryItem =>
    item.kind === 'choice' ? { ...item, logprobs: item.logprobs.map(() => -1e-3) } : item;
  const staleGroup = group(
    ...[answer(1, 'aa'), answer(0, 'bb')].map(({ reward, histories }) => ({
      reward,
      histories: histories.map(({ items, tools }) => ({ items: items.map(stale), tools })),
    })),
  );

  it.each([
    ['equal rewards', {}, [equal], '2 equal_rewards'],
    ['nothing submitted', {}, [], 'nothing was submitted'],
    ['groups of one', {}, [group(answer(1, 'a'))], '1 single_trajectory'],
    ['histories that do not fit', { packedSequenceLength: 4 }, [group(answer(1, 'a'), answer(0, 'b'))], '2 too_long'],
    ['a reference that is the policy', { klPenaltyCoef: 0.1 }, [equal], 'no trajectory has an advantage'],
    [
      'masked tokens',
      { maskProbRatio: true, epsilon: 0.2, epsilonHigh: 0.2, ppo: true },
      [staleGroup],
      'every token was',
    ],
  ] as const)('is reported with the cause: %s', async (_name, config, groups, cause) => {
    const [warning, ...others] = await nothing(config, [...groups]);
    expect(others).toEqual([]);
    expect(warning!.message).toContain(cause);
    expect(warning!.suggestion).not.toBe('');
  });

  it('is no job with one gradient step that has one', async () => {
    expect(await nothing({ gradientSteps: 1 }, [...GROUPS, equal])).toEqual([]);
    expect(await nothing({ entropyCoef: 0.1 }, [equal])).toEqual([]);
  });
});
