import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import type { SamplingReport } from '../packing/choice-replay.ts';
import type { WarningCode } from './job-warning.ts';
import { startWarnings, withStepWarnings } from './job-warnings.ts';
import { learningRateWarnings, suitableLearningRate, resolveLearningRate } from './learning-rate-rule.ts';
import { answer, group } from '../testing/chat-groups.ts';
import type { TrainerEvent } from './training-job.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

const SMOL = { name: 'llama', hiddenSize: 576 };
const LORA = { alpha: 16 };

const PLAIN: SamplingReport = { numChoices: 8, numReplayed: 0, unreplayed: {}, refused: {}, changes: {} };

function atStart(
  groups: readonly TrajectoryGroup[],
  input: TrainingConfigInput = { learningRate: 1e-3 },
  sampling: SamplingReport = PLAIN,
) {
  const report = { sampling, numCopiedChoices: 0, numCopiedTokens: 0 };
  const resolved = resolveTrainingConfig(input);
  const config = { ...resolved, learningRate: resolveLearningRate(resolved.learningRate, SMOL, LORA) };
  return startWarnings(groups, { config, architecture: SMOL, lora: LORA, report });
}
const codes = (warnings: readonly { code: WarningCode }[]) => warnings.map(({ code }) => code);

describe('the learning rate', () => {
  it('is compared with Tinker’s rule: ART’s default is 1/264 of the recommended rate for a hidden size of 576', () => {
    const suitable = suitableLearningRate(SMOL, LORA);
    console.log(`suitable for a Llama of hidden size 576: ${suitable}; ART's default below it: ${suitable / 5e-6}`);
    expect(suitable / 5e-6).toBeCloseTo(264.4, 0);
    const [warning] = atStart([], { learningRate: 5e-6 });
    expect(warning).toMatchObject({ code: 'learning_rate_low', value: 5e-6 });
    expect(warning!.message).toContain('264 times below');
    expect(warning!.suggestion).toContain('1.3e-3');
  });

  it('is that of the rule by default, which gives no warning for any model and rank', () => {
    expect(atStart([], {})).toEqual([]);
    for (const hiddenSize of [64, 576, 4096, 16_384])
      for (const alpha of [1, 16, 64, 512]) {
        const model = { name: 'llama', hiddenSize };
        const rate = resolveLearningRate('auto' as const, model, { alpha });
        expect(learningRateWarnings([rate], model, { alpha })).toEqual([]);
      }
    expect(resolveLearningRate(5e-6, SMOL, LORA)).toBe(5e-6);
    // Inversely proportional to the rank, because alpha is twice the rank.
    expect(suitableLearningRate(SMOL, { alpha: 64 })).toBeCloseTo(suitableLearningRate(SMOL, LORA) / 4, 12);
  });

  it('is known for the published sizes of both families', () => {
    // 5e-4 · (2000 / 4096)^0.781 for Llama 3.1 8B, · (2000 / 2560)^0.0775 for Qwen3 4B
    expect(suitableLearningRate({ name: 'llama', hiddenSize: 4096 }, LORA)).toBeCloseTo(2.857e-4, 6);
    expect(suitableLearningRate({ name: 'qwen3', hiddenSize: 2560 }, LORA)).toBeCloseTo(4.905e-4, 6);
  });

  it('is 2e-4 for Gemma models of all sizes, below that of a Llama model of the size', () => {
    for (const hiddenSize of [640, 1152, 2560, 3840, 5376]) {
      const rate = suitableLearningRate({ name: 'gemma3', hiddenSize }, LORA);
      expect(rate).toBe(2e-4);
      expect(rate).toBeLessThan(suitableLearningRate({ name: 'llama', hiddenSize }, LORA));
    }
    expect(suitableLearningRate({ name: 'gemma3', hiddenSize: 640 }, { alpha: 64 })).toBe(5e-5);
  });

  it('is warned of when it is far, either way, and not when it is 0 or near', () => {
    for (const [rates, expected] of [
      [[0], []],
      [[1e-3], []],
      [[2e-4, 1e-5], []],
      [[1e-4], ['learning_rate_low']],
      [[0.1], ['learning_rate_high']],
    ] as const)
      expect(codes(learningRateWarnings(rates, SMOL, LORA)), String(rates)).toEqual(expected);
  });
});

it('warns when half of the groups have equal rewards, regardless of single ones', () => {
  const equal = group(answer(1, 'a'), answer(1, 'b'));
  const mixed = group(answer(1, 'a'), answer(0, 'b'));
  const single = group(answer(1, 'a'));
  expect(atStart([single, mixed])).toEqual([]);
  expect(atStart([equal, mixed, mixed])).toEqual([]);
  expect(atStart([equal, mixed, single])).toMatchObject([{ code: 'equal_reward_groups', value: 0.5 }]);
});

it('warns that truncated importance sampling does nothing without recomputed log-probabilities', () => {
  const learningRate = 1e-3;
  const off = atStart([], { learningRate, truncatedImportanceSampling: 2 });
  expect(off).toMatchObject([{ code: 'truncated_importance_sampling_off', value: 2 }]);
  expect(off[0]!.suggestion).toContain('`precalculate_logprobs`');
  expect(atStart([], { learningRate, truncatedImportanceSampling: 2, precalculateLogprobs: true })).toEqual([]);
  expect(atStart([], { learningRate })).toEqual([]);
});

it('warns when inference reported many choices as cut off', () => {
  const cut = (text: string) => {
    const made = answer(1, text);
    const items = made.histories[0]!.items.map((item) =>
      item.kind === 'choice' ? { ...item, finishReason: 'length' } : item,
    );
    return { ...made, histories: [{ ...made.histories[0]!, items }] };
  };
  const whole = Array.from({ length: 9 }, (_, i) => answer(i, `${i}`));
  expect(atStart([group(cut('x'), ...whole)])).toEqual([]);
  expect(atStart([group(cut('x'), cut('y'), ...whole)])).toMatchObject([{ code: 'replies_cut_off', value: 2 / 11 }]);
});

it('warns of choices that were not drawn as they are trained, by the reason', () => {
  const unreplayed = { greedy: 2, too_large: 1, unknown: 3 };
  const changes = { temperature: 2, truncation: 1, constraint: 1, penalties: 1 };
  const warnings = atStart([], undefined, { numChoices: 8, numReplayed: 2, unreplayed, refused: {}, changes });
  expect(warnings.map(({ code, value }) => [code, value])).toEqual([
    ['temperature_not_replayed', 2],
    ['truncation_not_replayed', 1],
    ['constraint_not_replayed', 1],
    ['penalties_not_replayed', 1],
    ['sampling_unknown', 3],
  ]);
  expect(warnings[0]!.message).toContain('2 greedy, 1 with too large a record');
});

describe('gradient steps', () => {
  function warningsOf(steps: readonly Record<string, number>[], input: TrainingConfigInput = {}) {
    const events: TrainerEvent[] = [];
    const emit = withStepWarnings((event) => void events.push(event), resolveTrainingConfig(input));
    emit({ kind: 'training_started', numGradientSteps: steps.length, data: {} });
    steps.forEach((metrics, index) => emit({ kind: 'gradient_step', index, metrics }));
    return events.flatMap((event) => (event.kind === 'warning' ? [event.warning] : []));
  }

  it('warn of an entropy below the bound, once', () => {
    expect(warningsOf([{ entropy: 0.5 }, { entropy: 0.02 }])).toEqual([]);
    expect(warningsOf([{ entropy: 0.5 }, { entropy: 0.004 }, { entropy: 0.003 }])).toMatchObject([
      { code: 'entropy_low', value: 0.004 },
    ]);
  });

  it('warn of a policy far from the base model', () => {
    expect(warningsOf([{ kl_base: 2.5, kl_start: 0.4 }])).toEqual([]);
    expect(warningsOf([{ kl_start: 2.5 }])).toMatchObject([{ code: 'far_from_base', value: 2.5 }]);
  });

  it('warn of gradient steps that move the policy far from its rollouts, not of old rollouts', () => {
    const steps = (...distances: number[]) =>
      distances.map((distance) => ({ kl_sampler: distance, num_tokens_with_gradient: 58 }));
    expect(warningsOf(steps(0, 0.1, 0.25))).toEqual([]);
    expect(warningsOf(steps(0.8, 0.9, 1))).toEqual([]);
    expect(warningsOf([{}, {}])).toEqual([]);
    const [warning, ...others] = warningsOf(steps(0, 0.2, 0.7, 0.95));
    expect(others).toEqual([]);
    expect(warning).toMatchObject({ code: 'far_from_sampler', value: 0.7 });
    expect(warning!.message).toBe(
      'gradient step 3 trains a policy that is 0.70 nats per token further from its rollouts than the first (`kl_sampler`), more than 0.5; a step has 58 tokens with a gradient',
    );
  });

  it('warn of tokens that are too likely to have been drawn from the policy', () => {
    const step = { surprisal_excess: -0.3, surprisal_excess_error: 0.02, num_trainable_tokens: 500 };
    expect(warningsOf([step])).toMatchObject([{ code: 'sampling_sharper', value: -0.3 }]);
    for (const other of [
      { ...step, surprisal_excess: 0.3 },
      { ...step, surprisal_excess: -0.02, surprisal_excess_error: 0.001 },
      { ...step, surprisal_excess_error: 0.1 },
      { ...step, num_trainable_tokens: 20 },
    ])
      expect(warningsOf([other])).toEqual([]);
    expect(warningsOf([{}, step])).toEqual([]);
  });

  it('warn at the end of a clip of sequence ratios that never acts', () => {
    const steps = [
      { clip_fraction: 0, ratio_max: 1 },
      { clip_fraction: 0, ratio_max: 1.0004 },
    ];
    const gspo = { ppo: true, importanceSamplingLevel: 'sequence' } as const;
    expect(warningsOf(steps, gspo)).toMatchObject([{ code: 'clip_never_acts', value: 0.2 }]);
    expect(warningsOf(steps, { ...gspo, epsilon: 3e-4 })).toEqual([]);
    expect(warningsOf(steps, { ppo: true })).toEqual([]);
    expect(warningsOf([steps[0]!, { clip_fraction: 0.1, ratio_max: 1.4 }], gspo)).toEqual([]);
  });
});
