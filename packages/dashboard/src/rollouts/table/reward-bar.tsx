import type { TrajectoryObject } from '@trainyard/sdk';

import { formatScore } from '../../components/numbers.ts';

export interface RewardScale {
  readonly least: number;
  readonly most: number;
}

/** Scale of the rewards of a list; it includes 0 and 1 if they are shares. */
export function rewardScale(rollouts: readonly TrajectoryObject[]): RewardScale {
  let [least, most] = [0, 0];
  for (const { reward } of rollouts) [least, most] = [Math.min(least, reward), Math.max(most, reward)];
  return { least, most: least === 0 && most <= 1 ? 1 : most };
}

/** A reward as a number with a bar from 0. */
export function RewardBar({ reward, scale: { least, most } }: { reward: number; scale: RewardScale }) {
  const width = most - least;
  const [from, to] = reward < 0 ? [reward, 0] : [0, reward];
  const start = width > 0 ? (from - least) / width : 0;
  const size = width > 0 ? (to - from) / width : 0;
  return (
    <span className="reward-cell">
      <b>{formatScore(reward)}</b>
      <span className="reward-track" aria-hidden="true">
        <span style={{ insetInlineStart: `${start * 100}%`, inlineSize: `${size * 100}%` }} />
      </span>
    </span>
  );
}
