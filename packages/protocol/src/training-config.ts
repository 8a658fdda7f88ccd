import Type, { type Static } from 'typebox';
import { optionalNullable } from './schema.ts';

/**
 * `experimental_config` of a training job. Every key may be left out or null; both mean the default of the trainer.
 * Unknown keys are accepted: newer clients send more. They are listed on the job as ignored.
 */
export const TrainingConfigSchema = Type.Object(
  {
    learning_rate: optionalNullable(Type.Number({ minimum: 0 })),
    ppo: optionalNullable(Type.Boolean()),
    epsilon: optionalNullable(Type.Number({ minimum: 0 })),
    epsilon_high: optionalNullable(Type.Number({ minimum: 0 })),
    importance_sampling_level: optionalNullable(Type.Enum(['token', 'sequence', 'average', 'geometric_average'])),
    max_negative_advantage_importance_sampling_weight: optionalNullable(Type.Number({ minimum: 0 })),
    mask_prob_ratio: optionalNullable(Type.Boolean()),
    kimi_k2_tau: optionalNullable(Type.Number({ minimum: 0 })),
    precalculate_logprobs: optionalNullable(Type.Boolean()),
    advantage_balance: optionalNullable(Type.Number({ minimum: -1, maximum: 1 })),
    scale_rewards: optionalNullable(Type.Boolean()),
    loss_fn: optionalNullable(Type.Enum(['cispo', 'ppo'])),
    normalize_advantages: optionalNullable(Type.Boolean()),
    allow_training_without_logprobs: optionalNullable(Type.Boolean()),
    truncated_importance_sampling: optionalNullable(Type.Number({ exclusiveMinimum: 0 })),
    kl_penalty_coef: optionalNullable(Type.Number({ minimum: 0 })),
    kl_penalty_reference_step: optionalNullable(Type.Integer({ minimum: 0 })),
    kl_penalty_step_lag: optionalNullable(Type.Integer({ minimum: 1 })),
    kl_penalty_source: optionalNullable(Type.Enum(['current_learner', 'sample'])),
    kl_ref_adapter_path: optionalNullable(Type.String()),
    packed_sequence_length: optionalNullable(Type.Integer({ minimum: 1 })),
    num_trajectories_learning_rate_multiplier_power: optionalNullable(Type.Number()),
    logprob_calculation_chunk_size: optionalNullable(Type.Integer({ minimum: 1 })),
    scale_learning_rate_by_reward_std_dev: optionalNullable(Type.Boolean()),
    plot_tensors: optionalNullable(Type.Boolean()),
  },
  { title: 'TrainingConfig' },
);
export type WireTrainingConfig = Static<typeof TrainingConfigSchema>;
export type TrainingConfigField = keyof WireTrainingConfig;

/** The fields that change what a job computes today. */
export const IMPLEMENTED_CONFIG_FIELDS = [
  'learning_rate',
  'ppo',
  'epsilon',
  'epsilon_high',
  'importance_sampling_level',
  'scale_rewards',
  'advantage_balance',
  'mask_prob_ratio',
  'max_negative_advantage_importance_sampling_weight',
  'kimi_k2_tau',
  'precalculate_logprobs',
  'loss_fn',
  'normalize_advantages',
  'truncated_importance_sampling',
] as const satisfies readonly TrainingConfigField[];

/** Known fields that are not implemented, with the value that asks for nothing. Any other value is refused by name. */
export const UNIMPLEMENTED_CONFIG_FIELDS = {
  allow_training_without_logprobs: false,
  kl_penalty_coef: 0,
  kl_penalty_reference_step: null,
  kl_penalty_step_lag: null,
  kl_penalty_source: 'current_learner',
  kl_ref_adapter_path: null,
  packed_sequence_length: null,
  num_trajectories_learning_rate_multiplier_power: 0,
  logprob_calculation_chunk_size: 1024,
  scale_learning_rate_by_reward_std_dev: false,
  plot_tensors: false,
} as const satisfies Record<Exclude<TrainingConfigField, (typeof IMPLEMENTED_CONFIG_FIELDS)[number]>, unknown>;

/** The first known field whose value asks for something the trainer does not do, or null. */
export function unsupportedConfigField(config: Readonly<Record<string, unknown>>): string | null {
  for (const [name, inert] of Object.entries(UNIMPLEMENTED_CONFIG_FIELDS)) {
    const value = config[name];
    if (value !== null && value !== undefined && value !== inert) return name;
  }
  return null;
}

/** Keys that this version does not know, in the order sent. */
export function ignoredConfigKeys(config: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(config).filter((key) => !Object.hasOwn(TrainingConfigSchema.properties, key));
}
