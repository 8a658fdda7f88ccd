import type { WireTrajectoryGroup } from '@trainyard/sdk';
import { meanReward } from '@trainyard/sdk/rollouts';

/**
 * The prompt whose mean reward rose most.
 *
 * @param before groups of the first step, one for each prompt
 * @param after groups of the last step
 * @returns its index; 0 if a group is missing, so that it cannot be told which prompts they are of
 */
export function mostImproved(before: readonly WireTrajectoryGroup[], after: readonly WireTrajectoryGroup[]): number {
  if (before.length !== after.length) return 0;
  const gains = before.map((group, index) => meanReward([after[index]!]) - meanReward([group]));
  return Math.max(0, gains.indexOf(Math.max(...gains)));
}
