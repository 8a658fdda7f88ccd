import type { RolloutMetric } from '@trainyard/sdk';

/** Metrics of a training job's rollouts; the other `train/` metrics are about the update that made a step. */
const ROLLOUT_METRICS: Readonly<Record<RolloutMetric, true>> = {
  'train/reward': true,
  'train/reward_std_dev': true,
  'train/exception_rate': true,
};

/**
 * Page of the rollouts for a chart's point. Metrics of rollouts are at the step that sampled them, those of
 * updates at the step after it.
 */
export function rolloutsHref(modelId: string, metric: string, step: number): string {
  const split = metric.split('/')[0] ?? 'train';
  const isOfUpdate =
    split === 'train' && !Object.hasOwn(ROLLOUT_METRICS, metric) && !metric.startsWith('train/rollouts/');
  const sampledAt = isOfUpdate ? Math.max(0, step - 1) : step;
  return `/models/${encodeURIComponent(modelId)}/rollouts?${new URLSearchParams({ split, step: String(sampledAt), metric })}`;
}
