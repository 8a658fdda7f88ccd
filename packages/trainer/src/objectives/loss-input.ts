/** The model computes in 32 bits, tests in 64. */
export type Floats = Float32Array | Float64Array;

/** N trained tokens of one row; every array is [N]. */
export interface LossInput {
  /** Values under the policy being trained. */
  readonly newLogprobs: Floats;
  /** Values under the sampling policy; NaN if unknown: the ratio is then 1. */
  readonly sampledLogprobs: Floats;
  /** Recomputed with the job's initial weights; null: the sampled ones are the old ones. */
  readonly precalculatedLogprobs: Floats | null;
  /** Values under the KL reference; null without a KL term. */
  readonly refLogprobs: Floats | null;
  /** Nats, under the policy being trained; null if the learner does not report them. */
  readonly entropies: Floats | null;
  readonly advantages: Floats;
  readonly weights: Floats;
  /** 0-based; ratios of the other levels are pooled over a history. */
  readonly histories: Int32Array;
}
