/**
 * Codes of conditions that make a job's training wrong or empty without being errors. A job emits each at most
 * once.
 *
 * - `ignored_settings`: settings of the job have no effect
 * - `learning_rate_low`, `learning_rate_high`: far from the rate suitable for the model
 * - `initial_scale_differs`: the learner draws fresh adapters larger or smaller than this service
 * - `trainer_unreachable`: a remote trainer did not answer, and the job waited for it
 * - `temperature_not_replayed`, `truncation_not_replayed`, `constraint_not_replayed`, `penalties_not_replayed`:
 *   choices were drawn from another distribution than the one they are trained under
 * - `sampling_unknown`: choices without a sampling record
 * - `sampling_refused`: choices that are not trained because they have no sampling record
 * - `sampling_sharper`: the sampled tokens are more likely than draws from the model would be
 * - `copied_choices`: choices that were sent more than once, each of which is trained once
 * - `nothing_trained`: no token had a gradient
 * - `equal_reward_groups`: most groups teach nothing
 * - `replies_cut_off`: many choices ended at a length limit
 * - `entropy_low`: the policy hardly varies any more
 * - `clip_never_acts`: the clip of a sequence-level ratio is wider than such ratios ever are
 * - `far_from_base`: the policy is far from the weights that training on rollouts started with
 * - `snapshot_damaged`: a snapshot differed from its digest, and its steps were trained again
 * - `optimizer_fresh`: the optimizer's state of the job's initial step was removed
 * - `adapter_not_loaded`: a sampling server did not load the step of the job
 * - `truncated_importance_sampling_off`: requested without recomputed log-probabilities, so there is nothing to
 *   correct
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
  'equal_reward_groups',
  'replies_cut_off',
  'entropy_low',
  'clip_never_acts',
  'far_from_base',
  'snapshot_damaged',
  'optimizer_fresh',
  'adapter_not_loaded',
  'truncated_importance_sampling_off',
] as const;

export type WarningCode = (typeof WARNING_CODES)[number];

/** Warning with wire names, so that it is passed on unchanged. */
export interface JobWarning {
  readonly code: WarningCode;
  /** The observation in words, with the wire field it concerns. */
  readonly message: string;
  /** Measured value: a rate, a share, nats or a count, as explained in the message. */
  readonly value: number;
  /** Suggested remedy. */
  readonly suggestion: string;
}
