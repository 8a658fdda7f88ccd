/** Floats of either width: the model computes in 32 bits, tests in 64. */
export type Floats = Float32Array | Float64Array;

/** The trained tokens of one row, N of them; every array is [N]. */
export interface LossInput {
  /** Under the policy being trained. */
  readonly newLogprobs: Floats;
  /** Under the sampling policy; NaN where a token came without: its ratio is 1 and it keeps a gradient. */
  readonly sampledLogprobs: Floats;
  /** Recomputed with the weights the job starts from; null: the sampled ones are the old ones. */
  readonly precalculatedLogprobs: Floats | null;
  /** Under the KL reference; null without a KL term. */
  readonly refLogprobs: Floats | null;
  /** Entropies of the distributions behind `newLogprobs`, in nats; null where the learner does not give them. */
  readonly entropies: Floats | null;
  readonly advantages: Floats;
  readonly weights: Floats;
  /** Which history of the row a token belongs to, 0-based; ratios of the other levels are pooled over it. */
  readonly histories: Int32Array;
}
