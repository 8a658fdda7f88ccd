import type { WireTrajectoryGroup } from '@trainyard/protocol';

type Values = Map<string, number[]>;

/**
 * Computes the metrics that a log of trajectories adds to the checkpoint.
 * For the split S: `S/reward` (mean over trajectories), `S/reward_std_dev` (mean over groups of at least two
 * of the population σ), `S/exception_rate`, `S/<metric>` (mean over the trajectories that have it) and
 * `S/group_<metric>`. Booleans count as 0 and 1.
 * @returns finite numbers only; empty without trajectories
 */
export function computeLogMetrics(groups: readonly WireTrajectoryGroup[], split: string): Record<string, number> {
  const trajectories = groups.flatMap((group) => group.trajectories);
  if (trajectories.length === 0) return {};
  const values: Values = new Map();
  for (const trajectory of trajectories) addAll(values, trajectory.metrics, '');
  for (const group of groups) addAll(values, group.metrics, 'group_');
  const numExceptions = groups.reduce((sum, group) => sum + (group.exceptions?.length ?? 0), 0);
  const rewards = groups.map((group) => group.trajectories.map((trajectory) => Number(trajectory.reward)));
  const spreads = rewards.filter((group) => group.length >= 2).map(standardDeviation);
  // The service's own names override a client's metric of the same name.
  values.set('reward', rewards.flat());
  values.set('reward_std_dev', spreads);
  const means = [...values]
    .filter(([, list]) => list.length > 0)
    .map(([name, list]): [string, number] => [name, mean(list)]);
  const metrics: [string, number][] = [
    ...means,
    ['exception_rate', numExceptions / (trajectories.length + numExceptions)],
  ];
  return Object.fromEntries(
    metrics.filter(([, value]) => Number.isFinite(value)).map(([name, value]) => [`${split}/${name}`, value]),
  );
}

function addAll(values: Values, metrics: Readonly<Record<string, number | boolean>> | undefined, prefix: string): void {
  for (const [name, value] of Object.entries(metrics ?? {})) {
    const list = values.get(prefix + name);
    if (list) list.push(Number(value));
    else values.set(prefix + name, [Number(value)]);
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function standardDeviation(values: readonly number[]): number {
  const centre = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - centre) ** 2)));
}
