import type { TrajectoryObject } from '@trainyard/sdk';

/** The rollouts of one scenario, whose rewards are compared with each other. */
export interface GroupOfRollouts {
  /** Made of the job or log and the group's number in it. */
  readonly key: string;
  readonly number: number;
  /** Id of its job; null for a log. */
  readonly jobId: string | null;
  /** Sorted by reward, the best first. */
  readonly rollouts: readonly TrajectoryObject[];
  readonly best: number;
  readonly worst: number;
  readonly mean: number;
  /** Reason that nothing of it was trained; null if something was, or if it is not known. */
  readonly reason: string | null;
}

/** Groups rollouts, in order of their arrival. */
export function groupRollouts(rollouts: readonly TrajectoryObject[]): GroupOfRollouts[] {
  const groups = new Map<string, TrajectoryObject[]>();
  for (const rollout of rollouts) {
    const key = `${rollout.job_id ?? rollout.log_id}.${rollout.group}`;
    const members = groups.get(key);
    if (members === undefined) groups.set(key, [rollout]);
    else members.push(rollout);
  }
  return Array.from(groups, ([key, members]) => {
    const byReward = members.toSorted((first, second) => second.reward - first.reward);
    const outcomes = new Set(members.map(({ outcome }) => outcome));
    const wasTrained = outcomes.has('trained') || outcomes.has('regularized');
    return {
      key,
      number: members[0]!.group,
      jobId: members[0]!.job_id,
      rollouts: byReward,
      best: byReward[0]!.reward,
      worst: byReward.at(-1)!.reward,
      mean: members.reduce((sum, { reward }) => sum + reward, 0) / members.length,
      reason: wasTrained ? null : ([...outcomes][0] ?? null),
    };
  });
}
