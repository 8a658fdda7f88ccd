import type { PolicyObjective } from './policy-objective.ts';

/**
 * The clipped surrogate: min(r · A, clip(r) · A). If the clipped branch decides, there is no gradient.
 *
 * @see Schulman and others, arXiv 1707.06347, equation 7
 */
export const ppo: PolicyObjective = {
  bounds: { of: 'ratio', epsilon: 0.2, epsilonHigh: null },
  gain: ({ ratio, clippedRatio, low, high, advantage, scale }) => {
    const plain = ratio * advantage;
    const bounded = clippedRatio * advantage;
    const isOutside = ratio < low || ratio > high;
    const isClipped = isOutside && !(plain < bounded);
    return {
      value: scale * Math.min(plain, bounded),
      ofLogprob: 0,
      ofRatio: isClipped ? 0 : scale * advantage,
      clipped: !isClipped ? null : ratio < low ? 'low' : 'high',
    };
  },
};
