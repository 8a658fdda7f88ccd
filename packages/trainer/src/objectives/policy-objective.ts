/** Input of a policy-gradient objective for one trained token. */
export interface PolicyToken {
  /** Importance ratio at the configured level, after cap and mask. */
  readonly ratio: number;
  /** Ratio clamped to [1 - epsilon, 1 + epsilonHigh], which are `low` and `high`. */
  readonly clippedRatio: number;
  readonly low: number;
  readonly high: number;
  /** The configured bounds. */
  readonly epsilon: number;
  readonly epsilonHigh: number;
  /** Under the policy being trained. */
  readonly newLogprob: number;
  /** Under the old policy of the ratio; the new one if unknown. */
  readonly oldLogprob: number;
  /** After the terms that pull towards the sampling policy and the reference. */
  readonly advantage: number;
  /** Weight of the token in the mean of its step. */
  readonly scale: number;
}

/** Contribution of a token to the maximised objective, and its derivatives. */
export interface TokenGain {
  readonly value: number;
  /** ∂value/∂newLogprob with a constant ratio. */
  readonly ofLogprob: number;
  /** ∂value/∂ratio. No effect if cap or mask replaced the ratio by a number. */
  readonly ofRatio: number;
  /** Bound that acted on the token; null: none. */
  readonly clipped: 'low' | 'high' | null;
}

/**
 * A policy-gradient objective, which is maximised: the loss is its negative. One file each in this folder, with
 * its source.
 *
 * The common parts (levels of the ratio, cap, mask, tau, KL term, truncation, the mean, the entropy bonus) are
 * in `policy-loss.ts`.
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
