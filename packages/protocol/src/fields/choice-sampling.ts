import { distributionChanges, type PlainParams } from './sampling-params.ts';

/** Sampling of a choice's tokens, if not directly from the model's distribution. */
export interface ChoiceSampling {
  readonly settings: SamplingChanges;
  /** Data to compute the same distributions again; null if that is impossible, see `lost`. */
  readonly trace: SamplingTrace | null;
  readonly lost: LostTrace | null;
}

/**
 * Reason for a missing trace. `greedy`: nothing was sampled. `too_large`: the kept sets exceed
 * {@link MAX_TRACE_BYTES}. `undetermined`: the server did not report enough to know them.
 */
export type LostTrace = 'greedy' | 'too_large' | 'undetermined';

/** Changes of the distribution, in order of application: masks, bias, penalties, temperature, truncation. */
export interface SamplingChanges extends PlainParams<'sampling'> {
  /** True with a constraint, allowed ids, bad words, masked early ends, or the end of a thinking budget. */
  readonly isMasked: boolean;
  /** True if the log-probabilities in the answer are of the sampled distribution. Default false. */
  readonly hasProcessedLogprobs?: boolean;
  /**
   * True if the answer has logits instead of log-probabilities, so training reads the record instead. Default
   * false.
   */
  readonly reportsLogits?: boolean;
  /** Biases of distinct ids. */
  readonly logitBias: readonly (readonly [id: number, bias: number])[];
}

/** Distribution that one token was sampled from. */
export interface TokenDraw {
  /**
   * Log-probability of the token under it; NaN if not reported. Training then computes it with the weights
   * that sampled the token.
   */
  readonly logprob: number;
  /** Possible tokens; null = the whole vocabulary. */
  readonly kept: KeptTokens | null;
}

/** Ids of a vocabulary, or all but those. */
export interface KeptTokens {
  readonly isComplement: boolean;
  /** Ascending, distinct. */
  readonly ids: Int32Array;
}

export interface SamplingTrace {
  /**
   * [n] log-probability of each token under the distribution it was sampled from; NaN as in
   * {@link TokenDraw}.
   */
  readonly logprobs: Float32Array;
  /** Set of possible tokens for each token: see `KeptTokensWriter` of `@trainyard/tokenizer`. */
  readonly kept: Uint8Array;
}

/** Maximum size of a choice's trace: 150 tokens sampled from 1,500 each, or 2,600 from 90 each. */
export const MAX_TRACE_BYTES = 256 * 1024;

export function changesDistribution(changes: SamplingChanges): boolean {
  const { isMasked, logitBias, reportsLogits = false } = changes;
  return isMasked || logitBias.length > 0 || reportsLogits || distributionChanges(changes).size > 0;
}
