import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, scheduleOf, type TrainingConfigInput } from './training-config.ts';
import { TrainerError } from '../contract/errors.ts';

describe('resolveTrainingConfig', () => {
  it('has the defaults of the API for nothing and for null alike', () => {
    const defaults = resolveTrainingConfig({});
    expect(defaults).toMatchObject({
      learningRate: 'auto',
      lossFunction: 'cispo',
      epsilon: 1,
      epsilonHigh: 4,
      importanceSamplingLevel: 'token',
      maxNegativeAdvantageImportanceSamplingWeight: 0,
      maskProbRatio: false,
      kimiK2Tau: 0,
      precalculateLogprobs: false,
      advantageBalance: 0,
      scaleRewards: true,
      normalizeAdvantages: true,
      allowTrainingWithoutLogprobs: false,
      truncatedImportanceSampling: 0,
      klPenaltyCoef: 0,
      klPenaltySource: 'current_learner',
      entropyCoef: 0,
      lossAggregation: 'token',
      lossAggregationLength: 1024,
      gradientSteps: null,
      stepPerRow: false,
      packedSequenceLength: null,
      learningRateSchedule: 'constant',
      learningRateWarmupSteps: 0,
      learningRateDecaySteps: null,
      weightDecay: 0.1,
      maxGradNorm: 0.1,
    });
    const nulls = Object.fromEntries(
      [...Object.keys(defaults), 'ppo', 'lossFn', 'numSubsteps', 'vendorK2Tau', 'klRefAdapterPath'].map((key) => [
        key,
        null,
      ]),
    );
    expect(resolveTrainingConfig(nulls as TrainingConfigInput)).toEqual(defaults);
    expect(Object.isFrozen(defaults)).toBe(true);
  });

  it.each<[TrainingConfigInput, number, number]>([
    [{ ppo: true }, 0.2, 0.2],
    [{ ppo: true, epsilon: 0.1 }, 0.1, 0.1],
    [{ ppo: true, epsilonHigh: 0 }, 0.2, 0],
    [{ epsilon: 0.2 }, 0.2, 4],
    [{ epsilon: 0 }, 0, 4],
    [{ ppo: false, lossFn: 'cispo' }, 1, 4],
    [{ ppo: false, lossFn: 'ppo' }, 0.2, 0.2],
  ])('%j clips with epsilon %d and high %d', (input, epsilon, epsilonHigh) => {
    expect(resolveTrainingConfig(input)).toMatchObject({ epsilon, epsilonHigh });
  });

  it('sums by token unless rows are steps, which sum by trajectory', () => {
    expect(resolveTrainingConfig({ stepPerRow: true }).lossAggregation).toBe('normalized_trajectory');
    expect(resolveTrainingConfig({ stepPerRow: false }).lossAggregation).toBe('token');
    expect(resolveTrainingConfig({ lossAggregation: 'trajectory' }).lossAggregation).toBe('trajectory');
  });

  it('knows gradient_steps by the name that Tinker has for it', () => {
    for (const input of [{ gradientSteps: 3 }, { numSubsteps: 3 }, { gradientSteps: 3, numSubsteps: 3 }])
      expect(resolveTrainingConfig(input)).toMatchObject({ gradientSteps: 3 });
  });

  it('knows kimi_k2_tau by its other name', () => {
    for (const input of [{ kimiK2Tau: 0.3 }, { vendorK2Tau: 0.3 }, { kimiK2Tau: 0.3, vendorK2Tau: 0.3 }])
      expect(resolveTrainingConfig(input)).toMatchObject({ kimiK2Tau: 0.3 });
    expect(() => resolveTrainingConfig({ kimiK2Tau: 0.3, vendorK2Tau: 0.2 })).toThrow(
      '`vendor_k2_tau` is another name of `kimi_k2_tau`: got 0.2 and 0.3, remove one of them',
    );
  });

  it('keeps 0 and false', () => {
    const input = {
      learningRate: 0,
      scaleRewards: false,
      normalizeAdvantages: false,
      weightDecay: 0,
      advantageBalance: -1,
    };
    expect(resolveTrainingConfig(input)).toMatchObject(input);
  });

  it.each<[TrainingConfigInput, string]>([
    [{ learningRate: -1 }, '`learning_rate` must be a finite number in [0, 3.4028234663852886e+38], got -1'],
    [
      { learningRate: Infinity },
      '`learning_rate` must be a finite number in [0, 3.4028234663852886e+38], got Infinity',
    ],
    [{ advantageBalance: 1.5 }, '`advantage_balance` must be a finite number in [-1, 1], got 1.5'],
    [{ epsilon: -0.1 }, '`epsilon` must be a finite number in [0, 3.4028234663852886e+38], got -0.1'],
    [{ kimiK2Tau: Number.NaN }, '`kimi_k2_tau` must be a finite number in [0, 3.4028234663852886e+38], got NaN'],
    [{ klPenaltyStepLag: 0 }, '`kl_penalty_step_lag` must be an integer >= 1, got 0'],
    [{ packedSequenceLength: 40_000 }, '`packed_sequence_length` must be an integer in [2, 32768], got 40000'],
    [{ klRefAdapterPath: '/etc' }, '`kl_ref_adapter_path` is not accepted: use `kl_penalty_reference_step`'],
    [
      { importanceSamplingLevel: 'word' as 'token' },
      '`importance_sampling_level` must be one of token, sequence, average, geometric_average, got word',
    ],
    [{ ppo: true, lossFn: 'cispo' }, '`loss_fn` is cispo and `ppo` is true: remove one of them'],
    [
      { klPenaltyReferenceStep: 0, klPenaltyStepLag: 1 },
      '`kl_penalty_step_lag` and `kl_penalty_reference_step` both set the reference: remove one of them',
    ],
    [{ learningRateSchedule: 'cosine' }, '`learning_rate_decay_steps` is missing: the schedule cosine needs a length'],
    [
      { learningRateSchedule: 'linear', learningRateWarmupSteps: 5, learningRateDecaySteps: 5 },
      '`learning_rate_decay_steps` must be an integer >= 6, got 5',
    ],
    [{ learningRateDecaySteps: 5 }, '`learning_rate_decay_steps` has no effect with a constant learning rate, got 5'],
    [
      { learningRateFinalFraction: 2, learningRateSchedule: 'linear', learningRateDecaySteps: 9 },
      '`learning_rate_final_fraction` must be a finite number in [0, 1], got 2',
    ],
    [{ gradientSteps: 0 }, '`gradient_steps` must be an integer in [1, 65536], got 0'],
    [{ numSubsteps: 1.5 }, '`num_substeps` must be an integer in [1, 65536], got 1.5'],
    [
      { gradientSteps: 2, numSubsteps: 3 },
      '`num_substeps` is another name of `gradient_steps`: got 3 and 2, remove one of them',
    ],
    [{ gradientSteps: 2, stepPerRow: true }, '`gradient_steps` has no effect with `step_per_row`: remove one of them'],
    [
      { lossAggregation: 'token', stepPerRow: true },
      '`loss_aggregation` must be normalized_trajectory with `step_per_row`, because its rows are parts of groups, got token',
    ],
    [
      { lossAggregation: 'token', lossAggregationLength: 8 },
      '`loss_aggregation_length` requires `loss_aggregation` constant',
    ],
    [
      { lossAggregation: 'mean' as 'token' },
      '`loss_aggregation` must be one of normalized_trajectory, trajectory, token, constant, got mean',
    ],
    [{ ppo: 'yes' as unknown as boolean }, '`ppo` must be true or false, got yes'],
  ])('refuses %j, with the field apart', (input, message) => {
    const field = message.slice(1, message.indexOf('`', 1));
    expect(() => resolveTrainingConfig(input)).toThrow(new TrainerError('trainer.config_invalid', message, { field }));
  });
});

describe('scheduleOf', () => {
  it('rises to the learning rate and falls to its fraction', () => {
    const config = resolveTrainingConfig({
      learningRate: 1e-3,
      learningRateSchedule: 'linear',
      learningRateWarmupSteps: 4,
      learningRateDecaySteps: 20,
      learningRateFinalFraction: 0.25,
    });
    expect(scheduleOf(config)).toEqual({
      shape: 'linear',
      peak: 1e-3,
      initial: 0,
      numWarmupSteps: 4,
      numWarmupParts: 5,
      final: 2.5e-4,
      finalStep: 20,
    });
  });

  it('never ends if it is constant', () => {
    expect(scheduleOf(resolveTrainingConfig({ learningRate: 1 }))).toMatchObject({
      shape: 'constant',
      finalStep: Infinity,
    });
  });
});
