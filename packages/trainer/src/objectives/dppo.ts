import type { PolicyObjective } from './policy-objective.ts';

/**
 * Masks by divergence instead of clipping ratios: M · r · A. M is 0 for a token whose probability has moved
 * beyond the bound in the direction of its advantage, π - μ > epsilonHigh with A > 0 or μ - π > epsilon with
 * A < 0, else 1.
 *
 * |π - μ| of the sampled token is the total variation between the policies with all other tokens merged, a lower
 * bound of theirs. A rare token may become many times as likely; a likely one may not lose much. A clip of ratios
 * does the opposite.
 *
 * @see Qi and others, Rethinking the Trust Region in LLM Reinforcement Learning (DPPO), arXiv 2602.04879: the
 * binary form with total variation. Both bounds are 0.2 by default, as in the authors' scripts.
 */
export const dppo: PolicyObjective = {
  bounds: { of: 'probability', epsilon: 0.2, epsilonHigh: null },
  gain: ({ ratio, newLogprob, oldLogprob, epsilon, epsilonHigh, advantage, scale }) => {
    const shift = Math.exp(newLogprob) - Math.exp(oldLogprob);
    const clipped = advantage > 0 && shift > epsilonHigh ? 'high' : advantage < 0 && -shift > epsilon ? 'low' : null;
    if (clipped !== null) return { value: 0, ofLogprob: 0, ofRatio: 0, clipped };
    return { value: scale * ratio * advantage, ofLogprob: 0, ofRatio: scale * advantage, clipped };
  },
};
