import type { TrajectoryObject } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { groupRollouts } from './rollout-groups.ts';

const rollout = (job: string | null, [group, index]: [number, number], reward: number, outcome: string | null) =>
  ({
    id: `${job}.${group}.${index}`,
    job_id: job,
    log_id: job === null ? 'l' : null,
    group,
    index,
    reward,
    outcome,
  }) as TrajectoryObject;

test('rollouts are grouped by job and number, the best of each first, and groups give the reason they were dropped', () => {
  const groups = groupRollouts([
    rollout('a', [0, 0], 0, 'trained'),
    rollout('a', [0, 1], 1, 'zero_advantage'),
    rollout('b', [0, 0], 1, 'equal_rewards'),
    rollout('b', [0, 1], 1, 'equal_rewards'),
    rollout(null, [0, 0], 3, null),
  ]);
  expect(groups.map(({ key, best, worst, mean, reason }) => [key, best, worst, mean, reason])).toEqual([
    ['a.0', 1, 0, 0.5, null],
    ['b.0', 1, 1, 1, 'equal_rewards'],
    ['l.0', 3, 3, 3, null],
  ]);
  expect(groups[0]?.rollouts.map(({ index }) => index)).toEqual([1, 0]);
});
