import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { expect, test } from 'vitest';

import { computeReplyMetrics, computeRolloutMetrics } from './log-metrics.ts';
import { trajectoryContents } from './trajectory-contents.ts';

const NO_RECORDS = new Map<string, number>();

function group(rewards: readonly number[], ends: readonly string[]): WireTrajectoryGroup {
  return {
    trajectories: rewards.map((reward, index) => ({
      messages_and_choices: [
        { role: 'user', content: '?' },
        {
          finish_reason: ends[index],
          index: 0,
          token_ids: Array.from({ length: index + 1 }, () => 1),
          message: { role: 'assistant', content: 'x' },
        },
      ],
      reward,
      metrics: { words: index, entropy: 7 },
    })),
  } as WireTrajectoryGroup;
}

const contentsOf = (groups: readonly WireTrajectoryGroup[]) =>
  groups.map(({ trajectories }) => trajectories.map((one) => trajectoryContents(one, NO_RECORDS)));

test('rollouts of a job bring their own metrics, reply length, share cut off and share solved', () => {
  const groups = [group([1, 0, 1], ['stop', 'length', 'max_tokens'])];
  expect(computeRolloutMetrics(groups, contentsOf(groups))).toEqual({
    'train/rollouts/words': 1,
    // Not `train/entropy`, which is of the update.
    'train/rollouts/entropy': 7,
    'train/rollouts/reply_tokens': 2,
    'train/rollouts/cut_off_share': 2 / 3,
    'train/rollouts/solved_share': 2 / 3,
  });
});

test('without rewards in 0 to 1, tokens or ends there is no such share', () => {
  const scores = [group([5, 1], ['stop', 'stop'])];
  expect(computeReplyMetrics(scores, contentsOf(scores), 'val')).toEqual({
    'val/reply_tokens': 1.5,
    'val/cut_off_share': 0,
  });
  const plain = [{ trajectories: [{ messages_and_choices: [{ role: 'assistant', content: 'x' }], reward: 0 }] }];
  expect(
    computeReplyMetrics(plain as WireTrajectoryGroup[], contentsOf(plain as WireTrajectoryGroup[]), 'val'),
  ).toEqual({ 'val/solved_share': 0 });
  expect(computeReplyMetrics([], [], 'val')).toEqual({});
});
