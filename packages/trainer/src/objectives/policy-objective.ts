/** One trained token, as a policy-gradient objective sees it. */
export interface PolicyToken {
  /** The importance ratio at the configured level, behind cap and mask. */
  readonly ratio: number;
  /** The ratio held to [1 - epsilon, 1 + epsilonHigh], which are `low` and `high`. */
  readonly clippedRatio: number;
  readonly low: number;
  readonly high: number;
  /** The bounds as they are set. */
  readonly epsilon: number;
  readonly epsilonHigh: number;
  /** Under the policy being trained. */
  readonly newLogprob: number;
  /** Under the policy that the ratio is to; the new one where it is not known. */
  readonly oldLogprob: number;
  /** Behind the terms that pull towards the sampling policy and the reference. */
  readonly advantage: number;
  /** Weight of the token in the mean of its step. */
  readonly scale: number;
}

/** A token's contribution to the maximised objective, and its derivatives. */
export interface TokenGain {
  readonly value: number;
  /** ∂value/∂newLogprob, the ratio held still. */
  readonly ofLogprob: number;
  /** ∂value/∂ratio. Without effect where cap or mask replaced the ratio by a number. */
  readonly ofRatio: number;
  /** The bound that acted on the token; null: none. */
  readonly clipped: 'low' | 'high' | null;
}

/**
 * A policy-gradient objective, which is maximised: the loss is its negative. One file each beside this one, with its source.
 *
 * Their common parts (levels of the ratio, cap, mask, tau, KL term, truncation, the mean, the entropy bonus) are in `policy-loss.ts`.
 */
export interface PolicyObjective {
  /** The two bounds and their defaults; `epsilonHigh` null: the same as `epsilon`. */
  readonly bounds: {
    readonly of: 'ratio' | 'probability';
    readonly epsilon: number;
    readonly epsilonHigh: number | null;
  };
  readonly gain: (token: PolicyToken) => TokenGain;
}
