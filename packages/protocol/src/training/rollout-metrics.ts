/**
 * Metrics of the rollouts of a whole job, which belong to the step these were sampled from; the other
 * `train/` metrics are of the update after it.
 */
export const ROLLOUT_METRICS = ['train/reward', 'train/reward_std_dev', 'train/exception_rate'] as const;
export type RolloutMetric = (typeof ROLLOUT_METRICS)[number];

/** Start of the names of rollouts' own metrics in a training job, which may be named like those of updates. */
export const OWN_ROLLOUT_METRICS = 'train/rollouts/';

export function isRolloutMetric(name: string): boolean {
  return (ROLLOUT_METRICS as readonly string[]).includes(name) || name.startsWith(OWN_ROLLOUT_METRICS);
}
