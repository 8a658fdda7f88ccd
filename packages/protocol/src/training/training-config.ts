import Type, { type Static } from 'typebox';
import { optionalNullable } from '../shape/schema.ts';

/**
 * `experimental_config` of a training job. Every key may be left out or null; both mean the default of the trainer.
 * Unknown keys are accepted: newer clients send more. They are listed on the job as ignored.
 */
export const TrainingConfigSchema = Type.Object(
  {
    learning_rate: optionalNullable(Type.Number({ minimum: 0 })),
    ppo: optionalNullable(Type.Boolean()),
    loss_fn: optionalNullable(Type.Enum(['cispo', 'ppo', 'dppo'])),
    epsilon: optionalNullable(Type.Number({ minimum: 0 })),
    epsilon_high: optionalNullable(Type.Number({ minimum: 0 })),
    importance_sampling_level: optionalNullable(Type.Enum(['token', 'sequence', 'average', 'geometric_average'])),
    max_negative_advantage_importance_sampling_weight: optionalNullable(Type.Number({ minimum: 0 })),
    mask_prob_ratio: optionalNullable(Type.Boolean()),
    kimi_k2_tau: optionalNullable(Type.Number({ minimum: 0 })),
    precalculate_logprobs: optionalNullable(Type.Boolean()),
    advantage_balance: optionalNullable(Type.Number({ minimum: -1, maximum: 1 })),
    scale_rewards: optionalNullable(Type.Boolean()),
    normalize_advantages: optionalNullable(Type.Boolean()),
    allow_training_without_logprobs: optionalNullable(Type.Boolean()),
    truncated_importance_sampling: optionalNullable(Type.Number({ exclusiveMinimum: 0 })),
    kl_penalty_coef: optionalNullable(Type.Number({ minimum: 0 })),
    kl_penalty_reference_step: optionalNullable(Type.Integer({ minimum: 0 })),
    kl_penalty_step_lag: optionalNullable(Type.Integer({ minimum: 1 })),
    kl_penalty_source: optionalNullable(Type.Enum(['current_learner', 'sample'])),
    kl_ref_adapter_path: optionalNullable(Type.String()),
    entropy_coef: optionalNullable(Type.Number({ minimum: 0 })),
    loss_aggregation: optionalNullable(Type.Enum(['normalized_trajectory', 'trajectory', 'token', 'constant'])),
    loss_aggregation_length: optionalNullable(Type.Integer({ minimum: 1 })),
    gradient_steps: optionalNullable(Type.Integer({ minimum: 1, maximum: 65_536 })),
    num_substeps: optionalNullable(Type.Integer({ minimum: 1, maximum: 65_536 })),
    step_per_row: optionalNullable(Type.Boolean()),
    packed_sequence_length: optionalNullable(Type.Integer({ minimum: 2 })),
    num_trajectories_learning_rate_multiplier_power: optionalNullable(Type.Number()),
    learning_rate_schedule: optionalNullable(Type.Enum(['constant', 'linear', 'cosine'])),
    learning_rate_warmup_steps: optionalNullable(Type.Integer({ minimum: 0 })),
    learning_rate_decay_steps: optionalNullable(Type.Integer({ minimum: 1 })),
    learning_rate_final_fraction: optionalNullable(Type.Number({ minimum: 0, maximum: 1 })),
    adam_beta1: optionalNullable(Type.Number({ minimum: 0, exclusiveMaximum: 1 })),
    adam_beta2: optionalNullable(Type.Number({ minimum: 0, exclusiveMaximum: 1 })),
    adam_epsilon: optionalNullable(Type.Number({ exclusiveMinimum: 0 })),
    weight_decay: optionalNullable(Type.Number({ minimum: 0 })),
    max_grad_norm: optionalNullable(Type.Number({ exclusiveMinimum: 0 })),
    logprob_calculation_chunk_size: optionalNullable(Type.Integer({ minimum: 1 })),
    scale_learning_rate_by_reward_std_dev: optionalNullable(Type.Boolean()),
    plot_tensors: optionalNullable(Type.Boolean()),
  },
  { title: 'TrainingConfig' },
);
export type WireTrainingConfig = Static<typeof TrainingConfigSchema>;
export type TrainingConfigField = keyof WireTrainingConfig;

/**
 * Keys that clients send for their own trainers and that change nothing here, with the value that asks for nothing: memory is planned by
 * the model, nothing is plotted, and no trainer has the third any more. Other values are listed on the job as ignored.
 */
export const INERT_CONFIG_FIELDS = {
  logprob_calculation_chunk_size: 1024,
  plot_tensors: false,
  scale_learning_rate_by_reward_std_dev: false,
} as const satisfies Partial<Record<TrainingConfigField, unknown>>;

/** Keys that have no effect, in the order sent: those that this version does not know, and inert ones that ask for something. */
export function ignoredConfigKeys(config: Readonly<Record<string, unknown>>): string[] {
  const inert: Readonly<Record<string, unknown>> = INERT_CONFIG_FIELDS;
  return Object.entries(config)
    .filter(([key, value]) => {
      if (!Object.hasOwn(TrainingConfigSchema.properties, key)) return true;
      return Object.hasOwn(inert, key) && value !== null && value !== undefined && value !== inert[key];
    })
    .map(([key]) => key);
}
