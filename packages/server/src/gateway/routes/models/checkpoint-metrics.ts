import { isRolloutMetric, ROLLOUT_METRICS } from '@trainyard/protocol';
import type { Checkpoint, Metrics, Store } from '@trainyard/store';

/**
 * Metrics of checkpoints of one model, in their order. Rollout metrics are of rollouts sampled from the
 * checkpoint itself and come from the model's series; other `train/` metrics are of the update that made it.
 */
export async function readMetrics(
  store: Store,
  modelId: string,
  checkpoints: readonly Checkpoint[],
): Promise<Metrics[]> {
  if (checkpoints.length === 0) return [];
  const steps = checkpoints.map(({ step }) => step);
  const [from, to] = [Math.min(...steps), Math.max(...steps)];
  const maxPoints = Math.min(to - from + 1, 10_000);
  const series = await store.runs.readSeries({ modelId, names: ROLLOUT_METRICS, axis: 'step', maxPoints, from, to });
  const ofRollouts = new Map<number, Metrics>();
  for (const { name, points } of series)
    for (const { first, last, mean } of points)
      if (first === last) ofRollouts.set(first, { ...ofRollouts.get(first), [name]: mean });
  return checkpoints.map(({ step, metrics }) => {
    const others = Object.entries(metrics).filter(([name]) => !isRolloutMetric(name));
    return { ...Object.fromEntries(others), ...ofRollouts.get(step) };
  });
}
