import { OWN_ROLLOUT_METRICS, ROLLOUT_METRICS, type WireTrajectoryGroup } from '@trainyard/protocol';
import type { GroupContents } from '@trainyard/store';

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

/** Names that every training job has already, as `train/reward` and so on. */
const OF_JOBS: ReadonlySet<string> = new Set(ROLLOUT_METRICS.map((name) => name.slice('train/'.length)));

/** The same of a training job's rollouts, without those that the job itself reports. */
export function computeRolloutMetrics(
  groups: readonly WireTrajectoryGroup[],
  contents: GroupContents,
): Record<string, number> {
  const all = { ...computeLogMetrics(groups, OWN), ...computeReplyMetrics(groups, contents, OWN) };
  return Object.fromEntries(Object.entries(all).filter(([name]) => !OF_JOBS.has(name.slice(OWN.length + 1))));
}

const OWN = OWN_ROLLOUT_METRICS.replace(/\/$/, '');

/**
 * Computes metrics of the replies. For the split S: `S/reply_tokens` (mean sampled tokens of a trajectory),
 * `S/cut_off_share` (of trajectories whose last reply ended at its length limit) and `S/solved_share` (of
 * rewards of 1, if all rewards are in 0 to 1). Trajectories without these facts do not count.
 */
export function computeReplyMetrics(
  groups: readonly WireTrajectoryGroup[],
  contents: GroupContents,
  split: string,
): Record<string, number> {
  const all = contents.flat();
  const tokens = all.flatMap(({ numTokens }) => numTokens ?? []);
  const ends = all.flatMap(({ finishReason }) => finishReason ?? []);
  const rewards = groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => Number(reward)));
  const areShares = rewards.length > 0 && rewards.every((reward) => reward >= 0 && reward <= 1);
  return {
    ...(tokens.length === 0 ? {} : { [`${split}/reply_tokens`]: mean(tokens) }),
    ...(ends.length === 0 ? {} : { [`${split}/cut_off_share`]: mean(ends.map((end) => Number(CUT_OFF.has(end)))) }),
    ...(areShares ? { [`${split}/solved_share`]: mean(rewards.map((reward) => Number(reward === 1))) } : {}),
  };
}

/** Reasons of chat completions, Responses and Messages. */
const CUT_OFF: ReadonlySet<string> = new Set(['length', 'max_tokens', 'max_output_tokens']);

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
