/**
 * Conditions that make a job's training wrong or empty without being errors. A job emits each at most once.
 *
 * - `ignored_settings`: settings have no effect
 * - `learning_rate_low`, `learning_rate_high`: far from the rate suitable for the model
 * - `initial_scale_differs`: the learner draws fresh adapters larger or smaller than this service
 * - `trainer_unreachable`: the job waited for a remote trainer
 * - `temperature_not_replayed`, `truncation_not_replayed`, `constraint_not_replayed`, `penalties_not_replayed`:
 *   choices were drawn from another distribution than the one they are trained under
 * - `sampling_unknown`: choices without a sampling record
 * - `sampling_refused`: choices not trained, because they have no sampling record
 * - `sampling_sharper`: the sampled tokens are more likely than draws from the model would be
 * - `copied_choices`: choices sent more than once, but trained once
 * - `nothing_trained`: no token had a gradient
 * - `nothing_held_out`: no held-out conversation can be measured
 * - `equal_reward_groups`: most groups teach nothing
 * - `replies_cut_off`: many choices ended at a length limit
 * - `entropy_low`: the policy hardly varies any more
 * - `clip_never_acts`: the clip is wider than sequence-level ratios ever are
 * - `far_from_sampler`: gradient steps of the job moved the policy far from its rollouts
 * - `far_from_base`: far from the weights that training on rollouts started with
 * - `snapshot_damaged`: a snapshot differed from its digest, and its steps were trained again
 * - `optimizer_fresh`: the optimizer's state of the job's initial step was removed
 * - `adapter_not_loaded`: a sampling server did not load the step of the job
 * - `truncated_importance_sampling_off`: without recomputed log-probabilities there is nothing to correct
 */
export const WARNING_CODES = [
  'ignored_settings',
  'learning_rate_low',
  'learning_rate_high',
  'initial_scale_differs',
  'trainer_unreachable',
  'temperature_not_replayed',
  'truncation_not_replayed',
  'constraint_not_replayed',
  'penalties_not_replayed',
  'sampling_unknown',
  'sampling_refused',
  'sampling_sharper',
  'copied_choices',
  'nothing_trained',
  'nothing_held_out',
  'equal_reward_groups',
  'replies_cut_off',
  'entropy_low',
  'clip_never_acts',
  'far_from_sampler',
  'far_from_base',
  'snapshot_damaged',
  'optimizer_fresh',
  'adapter_not_loaded',
  'truncated_importance_sampling_off',
] as const;

export type WarningCode = (typeof WARNING_CODES)[number];

/** Names are those of the wire. */
export interface JobWarning {
  readonly code: WarningCode;
  /** Observation, with its wire field. */
  readonly message: string;
  /** A rate, a share, nats or a count; the message has the unit. */
  readonly value: number;
  /** Remedy. */
  readonly suggestion: string;
}
