import { flag, oneOf, orNull, wholeWithin, within } from './config-checks.ts';
import { TrainerError } from './errors.ts';

export type LossFunction = 'cispo' | 'ppo';
export type ImportanceSamplingLevel = 'token' | 'sequence' | 'average' | 'geometric_average';
export type KlPenaltySource = 'current_learner' | 'sample';

/**
 * What a client may ask for. `null` and `undefined` both mean absent; 0 and false are values.
 *
 * The three keys at the end are understood and have no effect on the numbers: rows are computed in blocks sized by the model,
 * and no tensors are plotted.
 */
export type TrainingConfigInput = {
  readonly [Key in keyof Omit<TrainingConfig, 'lossFunction'>]?: TrainingConfig[Key] | null | undefined;
} & {
  /** Decides over `ppo` when present. */
  readonly lossFn?: LossFunction | null | undefined;
  readonly ppo?: boolean | null | undefined;
  /** A path on the trainer: always refused. */
  readonly klRefAdapterPath?: string | null | undefined;
  readonly logprobCalculationChunkSize?: number | null | undefined;
  readonly scaleLearningRateByRewardStdDev?: boolean | null | undefined;
  readonly plotTensors?: boolean | null | undefined;
};

/** A training job's settings, complete. Made by `resolveTrainingConfig` alone, so inner code never checks them again. */
export interface TrainingConfig {
  /** Constant for the job; default 5e-6. 0 makes a step that changes nothing (weight decay is scaled by it too). */
  readonly learningRate: number;
  /** `'ppo'` clips the objective, `'cispo'` (default) clips the weight of the gradient: every token keeps one. */
  readonly lossFunction: LossFunction;
  /** Lower clip at 1 - epsilon. Default 0.2 for ppo, 1 for cispo. */
  readonly epsilon: number;
  /** Upper clip at 1 + epsilonHigh. Default: epsilon for ppo, 4 for cispo, there whatever epsilon is. */
  readonly epsilonHigh: number;
  /** Over what the importance ratio is taken; default `'token'`. */
  readonly importanceSamplingLevel: ImportanceSamplingLevel;
  /** Cap on the importance ratio of every token, whatever the sign of its advantage, despite the name. 0 (default): no cap. */
  readonly maxNegativeAdvantageImportanceSamplingWeight: number;
  /** Sets ratios outside (1 - epsilon, 1 + epsilonHigh) to 0, before the clip: cispo with epsilon < 1 lifts them to 1 - epsilon again. */
  readonly maskProbRatio: boolean;
  /** Pulls towards the sampling policy: advantage -= tau · log ratio. 0 (default): off. */
  readonly kimiK2Tau: number;
  /** Recomputes the old log-probabilities of all rows with the weights the job starts from. Default false. */
  readonly precalculateLogprobs: boolean;
  /** -1 keeps only negative advantages, 1 only positive ones. Default 0. */
  readonly advantageBalance: number;
  /** Divides advantages by the group's σ, when `normalizeAdvantages` holds as well. Both default to true. */
  readonly scaleRewards: boolean;
  readonly normalizeAdvantages: boolean;
  /** Trains assistant text that came without log-probabilities too, at ratio 1. Default false. */
  readonly allowTrainingWithoutLogprobs: boolean;
  /** Cap on an extra factor min(ratio, C) of each token's loss. 0 (default): off. */
  readonly truncatedImportanceSampling: number;
  /** Strength of the zero-mean KL term inside the advantages. 0 (default): off. */
  readonly klPenaltyCoef: number;
  /** Step whose adapter is the KL reference; null (default): the untouched base model. */
  readonly klPenaltyReferenceStep: number | null;
  /** Reference = max(0, current step - lag); null (default): see above. */
  readonly klPenaltyStepLag: number | null;
  /** Whether the KL term measures the policy being trained or the sampled log-probabilities. */
  readonly klPenaltySource: KlPenaltySource;
  /** Tokens in a row; null (default): the longest history, rounded up to 2,048. */
  readonly packedSequenceLength: number | null;
  /** Longest row the model may see; default 32,768. The server lowers it to what the base model was trained for. */
  readonly maxSequenceLength: number;
  /** learning rate · (histories in the row)^power. Default 0. */
  readonly numTrajectoriesLearningRateMultiplierPower: number;
  /** AdamW: 0.9, 0.99, 1e-8, decoupled weight decay 0.1. */
  readonly adamBeta1: number;
  readonly adamBeta2: number;
  readonly adamEpsilon: number;
  readonly weightDecay: number;
  /** Global norm that gradients are clipped to; default 0.1. */
  readonly maxGradNorm: number;
}

/** Longest row when nothing else says so. */
const MAX_SEQUENCE_LENGTH = 32_768;

/**
 * Fills in the defaults of a training job.
 *
 * @throws {TrainerError} `trainer.config_invalid`, naming the wire field, its limit and the value
 */
export function resolveTrainingConfig(input: TrainingConfigInput): TrainingConfig {
  const lossFunction = oneOf('loss_fn', input.lossFn ?? (flag('ppo', input.ppo ?? false) ? 'ppo' : 'cispo'), [
    'cispo',
    'ppo',
  ]);
  const epsilon = within('epsilon', input.epsilon ?? (lossFunction === 'ppo' ? 0.2 : 1), 0);
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
    epsilonHigh: within('epsilon_high', input.epsilonHigh ?? (lossFunction === 'ppo' ? epsilon : 4), 0),
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
    packedSequenceLength: orNull(input.packedSequenceLength, (length) =>
      wholeWithin('packed_sequence_length', length, 2, maxSequenceLength),
    ),
    maxSequenceLength,
    numTrajectoriesLearningRateMultiplierPower: within(
      'num_trajectories_learning_rate_multiplier_power',
      input.numTrajectoriesLearningRateMultiplierPower ?? 0,
      -Infinity,
    ),
    adamBeta1: within('adam_beta1', input.adamBeta1 ?? 0.9, 0, 1 - Number.EPSILON),
    adamBeta2: within('adam_beta2', input.adamBeta2 ?? 0.99, 0, 1 - Number.EPSILON),
    adamEpsilon: within('adam_epsilon', input.adamEpsilon ?? 1e-8, Number.MIN_VALUE),
    weightDecay: within('weight_decay', input.weightDecay ?? 0.1, 0),
    maxGradNorm: within('max_grad_norm', input.maxGradNorm ?? 0.1, Number.MIN_VALUE),
  });
}
