import type { WireTrajectoryGroup } from '@trainyard/sdk';
import { meanReward } from '@trainyard/sdk/rollouts';

/**
 * Prompt with the largest rise of its mean reward.
 * @param before groups of the first step, one per prompt
 * @param after groups of the last step
 * @returns its index; 0 if a group is missing, because the prompts are then unknown
 */
export function mostImproved(before: readonly WireTrajectoryGroup[], after: readonly WireTrajectoryGroup[]): number {
  if (before.length !== after.length) return 0;
  const gains = before.map((group, index) => meanReward([after[index]!]) - meanReward([group]));
  return Math.max(0, gains.indexOf(Math.max(...gains)));
}
