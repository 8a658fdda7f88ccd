import { TrainerError } from '../contract/errors.ts';
import type { LossConfig } from '../objectives/loss-config.ts';
import { LOSS_FUNCTIONS, POLICY_OBJECTIVES, type LossFunction } from '../objectives/policy-objectives.ts';
import type { OptimizerConfig } from '../optimizer/adamw.ts';
import type { LearningRateSchedule, ScheduleShape } from '../optimizer/learning-rate.ts';
import { flag, oneOf, orNull, wholeWithin, within } from './config-checks.ts';

export type LossAggregation = 'normalized_trajectory' | 'trajectory' | 'token' | 'constant';

/**
 * The settings that a client may choose. `null` and `undefined` both mean absent; 0 and false are values.
 *
 * Settings that contradict each other are refused rather than ranked.
 */
export type TrainingConfigInput = {
  readonly [Key in keyof Omit<TrainingConfig, 'lossFunction'>]?: TrainingConfig[Key] | null | undefined;
} & {
  /** `ppo: false` is what clients send who name a loss here, so it contradicts nothing. */
  readonly lossFn?: LossFunction | null | undefined;
  readonly ppo?: boolean | null | undefined;
  /** Another name of `gradientSteps`. */
  readonly numSubsteps?: number | null | undefined;
  /** A path on the trainer: always refused. */
  readonly klRefAdapterPath?: string | null | undefined;
};

/** A training job's settings, complete. Made by `resolveTrainingConfig` alone, so inner code never checks them again. */
export interface TrainingConfig extends LossConfig, OptimizerConfig {
  /** Default 5e-6, constant unless there is a warm-up or a schedule. 0 makes a step that changes nothing (weight decay is scaled by it too). */
  readonly learningRate: number;
  /** Recomputes the old log-probabilities of all rows with the weights the job starts from. Default false. */
  readonly precalculateLogprobs: boolean;
  /** -1 keeps only negative advantages, 1 only positive ones. Default 0. */
  readonly advantageBalance: number;
  /** Divides advantages by the group's σ, when `normalizeAdvantages` holds as well. Both default to true. */
  readonly scaleRewards: boolean;
  readonly normalizeAdvantages: boolean;
  /** Trains assistant text that came without log-probabilities too, at ratio 1. Default false. */
  readonly allowTrainingWithoutLogprobs: boolean;
  /** Step whose adapter is the KL reference; null (default): what the model began with. Without a coefficient the distance is reported alone. */
  readonly klPenaltyReferenceStep: number | null;
  /** Reference = max(0, current step - lag); null (default): see above. */
  readonly klPenaltyStepLag: number | null;
  /** How the losses of a step's tokens become one; see `stepWeights`. Default `'normalized_trajectory'`. */
  readonly lossAggregation: LossAggregation;
  /** Tokens that `'constant'` divides each trajectory's sum by. Default 1,024. */
  readonly lossAggregationLength: number;
  /** Gradient steps of the job, at most as many as it has groups; null (default): by the number of trajectories, see `numStepsFor`. */
  readonly gradientSteps: number | null;
  /** Makes every packed row a gradient step of its own, as ART does, whatever the groups of its histories. Default false. */
  readonly stepPerRow: boolean;
  /** Tokens in a row; null (default): the longest history, rounded up to 2,048. */
  readonly packedSequenceLength: number | null;
  /** Longest row the model may see; default 32,768. The server lowers it to what the base model was trained for. */
  readonly maxSequenceLength: number;
  /** learning rate · (histories in the step)^power. Default 0. */
  readonly numTrajectoriesLearningRateMultiplierPower: number;
  /** `'constant'` (default), or a decay over `learningRateDecaySteps`; see `learningRateAt`. Steps go on from job to job of a model. */
  readonly learningRateSchedule: ScheduleShape;
  /** Gradient steps, over all jobs of the model, until the full rate; default 0. */
  readonly learningRateWarmupSteps: number;
  /** Gradient steps, warm-up included, until the final rate; null exactly when the schedule is constant. */
  readonly learningRateDecaySteps: number | null;
  /** The final rate as a part of `learningRate`; default 0. */
  readonly learningRateFinalFraction: number;
}

/** A job has at most one for each group; a number beyond all use is a mistake. */
const MAX_GRADIENT_STEPS = 65_536;

/** Longest row when nothing else says so. */
const MAX_SEQUENCE_LENGTH = 32_768;

/**
 * Fills in the defaults of a training job.
 *
 * @throws {TrainerError} `trainer.config_invalid`; the message begins with the wire field and names its limit and the value
 */
export function resolveTrainingConfig(input: TrainingConfigInput): TrainingConfig {
  refuseContradictions(input);
  const lossFunction = oneOf(
    'loss_fn',
    input.lossFn ?? (flag('ppo', input.ppo ?? false) ? 'ppo' : 'cispo'),
    LOSS_FUNCTIONS,
  );
  const { bounds } = POLICY_OBJECTIVES[lossFunction];
  const epsilon = within('epsilon', input.epsilon ?? bounds.epsilon, 0);
  if (input.klRefAdapterPath !== undefined && input.klRefAdapterPath !== null) {
    throw new TrainerError(
      'trainer.config_invalid',
      '`kl_ref_adapter_path` is not accepted: use `kl_penalty_reference_step`',
    );
  }
  const maxSequenceLength = wholeWithin('max_sequence_length', input.maxSequenceLength ?? MAX_SEQUENCE_LENGTH, 2);
  return Object.freeze({
    learningRate: within('learning_rate', input.learningRate ?? 5e-6, 0),
    lossFunction,
    epsilon,
    epsilonHigh: within('epsilon_high', input.epsilonHigh ?? bounds.epsilonHigh ?? epsilon, 0),
    importanceSamplingLevel: oneOf('importance_sampling_level', input.importanceSamplingLevel ?? 'token', [
      'token',
      'sequence',
      'average',
      'geometric_average',
    ]),
    maxNegativeAdvantageImportanceSamplingWeight: within(
      'max_negative_advantage_importance_sampling_weight',
      input.maxNegativeAdvantageImportanceSamplingWeight ?? 0,
      0,
    ),
    maskProbRatio: flag('mask_prob_ratio', input.maskProbRatio ?? false),
    kimiK2Tau: within('kimi_k2_tau', input.kimiK2Tau ?? 0, 0),
    precalculateLogprobs: flag('precalculate_logprobs', input.precalculateLogprobs ?? false),
    advantageBalance: within('advantage_balance', input.advantageBalance ?? 0, -1, 1),
    scaleRewards: flag('scale_rewards', input.scaleRewards ?? true),
    normalizeAdvantages: flag('normalize_advantages', input.normalizeAdvantages ?? true),
    allowTrainingWithoutLogprobs: flag('allow_training_without_logprobs', input.allowTrainingWithoutLogprobs ?? false),
    truncatedImportanceSampling: within('truncated_importance_sampling', input.truncatedImportanceSampling ?? 0, 0),
    klPenaltyCoef: within('kl_penalty_coef', input.klPenaltyCoef ?? 0, 0),
    klPenaltyReferenceStep: orNull(input.klPenaltyReferenceStep, (step) =>
      wholeWithin('kl_penalty_reference_step', step, 0),
    ),
    klPenaltyStepLag: orNull(input.klPenaltyStepLag, (lag) => wholeWithin('kl_penalty_step_lag', lag, 1)),
    klPenaltySource: oneOf('kl_penalty_source', input.klPenaltySource ?? 'current_learner', [
      'current_learner',
      'sample',
    ]),
    entropyCoef: within('entropy_coef', input.entropyCoef ?? 0, 0),
    lossAggregation: oneOf('loss_aggregation', input.lossAggregation ?? 'normalized_trajectory', [
      'normalized_trajectory',
      'trajectory',
      'token',
      'constant',
    ]),
    lossAggregationLength: wholeWithin('loss_aggregation_length', input.lossAggregationLength ?? 1024, 1),
    gradientSteps: gradientStepsOf(input),
    stepPerRow: flag('step_per_row', input.stepPerRow ?? false),
    packedSequenceLength: orNull(input.packedSequenceLength, (length) =>
      wholeWithin('packed_sequence_length', length, 2, maxSequenceLength),
    ),
    maxSequenceLength,
    numTrajectoriesLearningRateMultiplierPower: within(
      'num_trajectories_learning_rate_multiplier_power',
      input.numTrajectoriesLearningRateMultiplierPower ?? 0,
      -Infinity,
    ),
    learningRateSchedule: oneOf('learning_rate_schedule', input.learningRateSchedule ?? 'constant', [
      'constant',
      'linear',
      'cosine',
    ]),
    learningRateWarmupSteps: wholeWithin('learning_rate_warmup_steps', input.learningRateWarmupSteps ?? 0, 0),
    learningRateDecaySteps: orNull(input.learningRateDecaySteps, (steps) =>
      wholeWithin('learning_rate_decay_steps', steps, 1 + (input.learningRateWarmupSteps ?? 0)),
    ),
    learningRateFinalFraction: within('learning_rate_final_fraction', input.learningRateFinalFraction ?? 0, 0, 1),
    adamBeta1: within('adam_beta1', input.adamBeta1 ?? 0.9, 0, 1 - Number.EPSILON),
    adamBeta2: within('adam_beta2', input.adamBeta2 ?? 0.99, 0, 1 - Number.EPSILON),
    adamEpsilon: within('adam_epsilon', input.adamEpsilon ?? 1e-8, Number.MIN_VALUE),
    weightDecay: within('weight_decay', input.weightDecay ?? 0.1, 0),
    maxGradNorm: within('max_grad_norm', input.maxGradNorm ?? 0.1, Number.MIN_VALUE),
  });
}

function gradientStepsOf(input: TrainingConfigInput): number | null {
  const steps = orNull(input.gradientSteps, (value) => wholeWithin('gradient_steps', value, 1, MAX_GRADIENT_STEPS));
  const substeps = orNull(input.numSubsteps, (value) => wholeWithin('num_substeps', value, 1, MAX_GRADIENT_STEPS));
  if (steps === null || substeps === null || steps === substeps) return steps ?? substeps;
  const message = `\`num_substeps\` is another name of \`gradient_steps\`: got ${substeps} and ${steps}, leave one of them out`;
  throw new TrainerError('trainer.config_invalid', message);
}

/** The job's learning rates, by the steps that the model's optimizer has taken: a schedule spans jobs. */
export function scheduleOf(
  config: Pick<
    TrainingConfig,
    | 'learningRate'
    | 'learningRateSchedule'
    | 'learningRateWarmupSteps'
    | 'learningRateDecaySteps'
    | 'learningRateFinalFraction'
  >,
): LearningRateSchedule {
  const { learningRate, learningRateWarmupSteps } = config;
  return {
    shape: config.learningRateSchedule,
    peak: learningRate,
    initial: 0,
    numWarmupSteps: learningRateWarmupSteps,
    numWarmupParts: learningRateWarmupSteps + 1,
    final: learningRate * config.learningRateFinalFraction,
    finalStep: config.learningRateDecaySteps ?? Infinity,
  };
}

/** Whether a term besides the rewards moves the policy, so that equal rewards teach something too. */
export function hasRegularizer(config: Pick<TrainingConfig, 'klPenaltyCoef' | 'entropyCoef' | 'kimiK2Tau'>): boolean {
  return config.klPenaltyCoef > 0 || config.entropyCoef > 0 || config.kimiK2Tau > 0;
}

/** Two settings of which one would have to be ignored. */
function refuseContradictions(input: TrainingConfigInput): void {
  const refuse = (message: string): never => {
    throw new TrainerError('trainer.config_invalid', message);
  };
  const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
  if (input.ppo === true && isGiven(input.lossFn) && input.lossFn !== 'ppo')
    refuse(`\`loss_fn\` is ${input.lossFn} and \`ppo\` is true: leave one of them out`);
  if (isGiven(input.klPenaltyReferenceStep) && isGiven(input.klPenaltyStepLag))
    refuse('`kl_penalty_step_lag` and `kl_penalty_reference_step` both name the reference: leave one of them out');
  if (input.stepPerRow === true) {
    for (const [name, value] of [
      ['gradient_steps', input.gradientSteps],
      ['num_substeps', input.numSubsteps],
    ] as const)
      if (isGiven(value)) refuse(`\`${name}\` has no meaning with \`step_per_row\`: leave one of them out`);
    if ((input.lossAggregation ?? 'normalized_trajectory') !== 'normalized_trajectory')
      refuse(
        `\`loss_aggregation\` must be normalized_trajectory with \`step_per_row\`, whose rows are parts of groups, got ${input.lossAggregation}`,
      );
  }
  if (isGiven(input.lossAggregationLength) && input.lossAggregation !== 'constant')
    refuse('`loss_aggregation_length` has no meaning unless `loss_aggregation` is constant');
  const decays = (input.learningRateSchedule ?? 'constant') !== 'constant';
  if (decays && !isGiven(input.learningRateDecaySteps))
    refuse(`\`learning_rate_decay_steps\` is missing: the schedule ${input.learningRateSchedule} needs its length`);
  if (decays) return;
  for (const [name, value] of [
    ['learning_rate_decay_steps', input.learningRateDecaySteps],
    ['learning_rate_final_fraction', input.learningRateFinalFraction],
  ] as const)
    if (isGiven(value)) refuse(`\`${name}\` has no meaning with a constant learning rate, got ${value}`);
}
