import type { PolicyObjective } from './policy-objective.ts';

/**
 * Clips the gradient's weight instead of the objective, so that every token keeps a gradient: sg(clip(r)) · A ·
 * log π.
 *
 * @see MiniMax-M1, arXiv 2506.13585, equations 4 and 5; the bounds are ART's
 */
export const cispo: PolicyObjective = {
  bounds: { of: 'ratio', epsilon: 1, epsilonHigh: 4 },
  gain: ({ ratio, clippedRatio, low, high, newLogprob, advantage, scale }) => ({
    value: scale * clippedRatio * advantage * newLogprob,
    ofLogprob: scale * clippedRatio * advantage,
    ofRatio: 0,
    clipped: ratio < low ? 'low' : ratio > high ? 'high' : null,
  }),
};
