import {
  ignoredConfigKeys,
  type INERT_CONFIG_FIELDS,
  type TrainingConfigField,
  type WireTrainingConfig,
} from '@trainyard/protocol';
import { resolveTrainingConfig, TrainerError, type TrainingConfig, type TrainingConfigInput } from '@trainyard/trainer';

import { RequestError } from '../../faults/request-error.ts';
import { renamed } from '../renamed.ts';

/** Longest row whatever the base model allows; ART's limit too. */
const MAX_ROW_TOKENS = 32_768;

/** The settings of a job that its row keeps. */
export interface JobConfig {
  /** Complete: what the trainer computes with. */
  resolved: TrainingConfig;
  /** `experimental_config` as sent. */
  requested: Record<string, unknown>;
  /** Keys of it that have no effect. */
  ignoredKeys: string[];
}

/** The settings of a job that clients may choose: all but the longest row, which the base model decides. */
type TrainerField = Exclude<keyof TrainingConfigInput, 'maxSequenceLength'>;

/**
 * A name of the trainer for each field of the wire that is not declared inert, whose values it takes. A field that were forgotten would be
 * neither honoured nor listed as ignored: this type has no room for it.
 */
export type TrainerNames = {
  readonly [Field in Exclude<TrainingConfigField, keyof typeof INERT_CONFIG_FIELDS>]-?: {
    [Name in TrainerField]: WireTrainingConfig[Field] extends TrainingConfigInput[Name] ? Name : never;
  }[TrainerField];
};

export const TRAINER_NAMES = {
  learning_rate: 'learningRate',
  ppo: 'ppo',
  loss_fn: 'lossFn',
  epsilon: 'epsilon',
  epsilon_high: 'epsilonHigh',
  importance_sampling_level: 'importanceSamplingLevel',
  max_negative_advantage_importance_sampling_weight: 'maxNegativeAdvantageImportanceSamplingWeight',
  mask_prob_ratio: 'maskProbRatio',
  kimi_k2_tau: 'kimiK2Tau',
  precalculate_logprobs: 'precalculateLogprobs',
  advantage_balance: 'advantageBalance',
  scale_rewards: 'scaleRewards',
  normalize_advantages: 'normalizeAdvantages',
  allow_training_without_logprobs: 'allowTrainingWithoutLogprobs',
  truncated_importance_sampling: 'truncatedImportanceSampling',
  kl_penalty_coef: 'klPenaltyCoef',
  kl_penalty_reference_step: 'klPenaltyReferenceStep',
  kl_penalty_step_lag: 'klPenaltyStepLag',
  kl_penalty_source: 'klPenaltySource',
  kl_ref_adapter_path: 'klRefAdapterPath',
  entropy_coef: 'entropyCoef',
  loss_aggregation: 'lossAggregation',
  loss_aggregation_length: 'lossAggregationLength',
  gradient_steps: 'gradientSteps',
  num_substeps: 'numSubsteps',
  step_per_row: 'stepPerRow',
  packed_sequence_length: 'packedSequenceLength',
  num_trajectories_learning_rate_multiplier_power: 'numTrajectoriesLearningRateMultiplierPower',
  learning_rate_schedule: 'learningRateSchedule',
  learning_rate_warmup_steps: 'learningRateWarmupSteps',
  learning_rate_decay_steps: 'learningRateDecaySteps',
  learning_rate_final_fraction: 'learningRateFinalFraction',
  adam_beta1: 'adamBeta1',
  adam_beta2: 'adamBeta2',
  adam_epsilon: 'adamEpsilon',
  weight_decay: 'weightDecay',
  max_grad_norm: 'maxGradNorm',
} as const satisfies TrainerNames;

/**
 * Reads `experimental_config`. Null and absent are the same: the default.
 *
 * @param contextLength longest sequence of the base model, tokens: longer histories are left out and counted
 * @throws {RequestError} `request.invalid` for values outside their limits, or that contradict each other, naming the field
 */
export function readJobConfig(wire: WireTrainingConfig | null | undefined, contextLength: number): JobConfig {
  const requested: Record<string, unknown> = { ...wire };
  const maxSequenceLength = Math.min(MAX_ROW_TOKENS, contextLength);
  const input: TrainingConfigInput = { ...renamed(requested, TRAINER_NAMES), maxSequenceLength };
  try {
    const resolved = resolveTrainingConfig(input);
    return { resolved, requested, ignoredKeys: ignoredConfigKeys(requested) };
  } catch (error) {
    if (!(error instanceof TrainerError) || error.code !== 'trainer.config_invalid') throw error;
    throw configFault(/^`(\w+)`/.exec(error.message)?.[1] ?? null, error.message);
  }
}

/** A setting that is refused; `message` names it, its limit and its value. */
export function configFault(field: string | null, message: string): RequestError {
  const loc = ['body', 'experimental_config', ...(field === null ? [] : [field])];
  return RequestError.invalid([{ loc, msg: message, type: 'value_error' }]);
}

/** A job's complete settings under the names of the wire. */
export function toWireConfig(resolved: unknown): Record<string, unknown> {
  const entries = Object.entries(typeof resolved === 'object' && resolved !== null ? resolved : {});
  return Object.fromEntries(entries.map(([name, value]) => [toWireName(name), value]));
}

function toWireName(name: string): string {
  return name === 'lossFunction' ? 'loss_fn' : name.replaceAll(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);
}
