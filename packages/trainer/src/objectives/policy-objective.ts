/** One trained token. */
export interface PolicyToken {
  /** Ratio at the configured level, after cap and mask. */
  readonly ratio: number;
  /** Ratio clamped to [1 - epsilon, 1 + epsilonHigh], which are `low` and `high`. */
  readonly clippedRatio: number;
  readonly low: number;
  readonly high: number;
  readonly epsilon: number;
  readonly epsilonHigh: number;
  /** Value under the policy being trained. */
  readonly newLogprob: number;
  /** Value under the ratio's old policy; the new one if unknown. */
  readonly oldLogprob: number;
  /** Includes the terms that pull towards the sampling policy and the reference. */
  readonly advantage: number;
  readonly scale: number;
}

/** Token's part of the maximised objective, and its derivatives. */
export interface TokenGain {
  readonly value: number;
  /** ∂value/∂newLogprob with a constant ratio. */
  readonly ofLogprob: number;
  /** ∂value/∂ratio. No effect if cap or mask replaced the ratio by a number. */
  readonly ofRatio: number;
  /** Null: no bound acted on the token. */
  readonly clipped: 'low' | 'high' | null;
}

/**
 * A maximised objective: the loss is its negative. One file each in this folder, with its source. The common
 * parts (levels of the ratio, cap, mask, tau, KL term, truncation, the mean, the entropy bonus) are in
 * `policy-loss.ts`.
 */
export interface PolicyObjective {
  /** Defaults; `epsilonHigh` null: the same as `epsilon`. */
  readonly bounds: {
    readonly of: 'ratio' | 'probability';
    readonly epsilon: number;
    readonly epsilonHigh: number | null;
  };
  readonly gain: (token: PolicyToken) => TokenGain;
}
