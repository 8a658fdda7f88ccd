/** Floats of either width: the model computes in 32 bits, tests in 64. */
export type Floats = Float32Array | Float64Array;

/** Trained tokens of one row, N of them; every array is [N]. */
export interface LossInput {
  /** Under the policy being trained. */
  readonly newLogprobs: Floats;
  /** Under the sampling policy; NaN if unknown: the ratio is then 1, and the token keeps a gradient. */
  readonly sampledLogprobs: Floats;
  /** Recomputed with the job's initial weights; null: the sampled ones are the old ones. */
  readonly precalculatedLogprobs: Floats | null;
  /** Under the KL reference; null without a KL term. */
  readonly refLogprobs: Floats | null;
  /** Entropies of the distributions of `newLogprobs`, in nats; null if the learner does not report them. */
  readonly entropies: Floats | null;
  readonly advantages: Floats;
  readonly weights: Floats;
  /** History index of each token in the row, 0-based; ratios of the other levels are pooled over it. */
  readonly histories: Int32Array;
}
