import { distributionChanges, type PlainParams } from './sampling-params.ts';

/** How the tokens of a choice were drawn, where that is not plainly from the model's distribution. */
export interface ChoiceSampling {
  readonly settings: SamplingChanges;
  /** The data needed to compute the same distributions again; null if that is impossible, see `lost`. */
  readonly trace: SamplingTrace | null;
  readonly lost: LostTrace | null;
}

/**
 * Why there is no trace. `greedy`: nothing was drawn. `too_large`: the kept sets take more than {@link MAX_TRACE_BYTES}. `undetermined`: the server that sampled did
 * not report enough to know them.
 */
export type LostTrace = 'greedy' | 'too_large' | 'undetermined';

/** Changes of the distribution, in the order in which they apply: masks, bias, penalties, temperature, truncation. */
export interface SamplingChanges extends PlainParams<'sampling'> {
  /** A constraint, allowed ids, bad words, end tokens that come too early, the end of a thinking budget. */
  readonly isMasked: boolean;
  /** The log-probabilities in the answer are of the distribution that was drawn from. Default false. */
  readonly hasProcessedLogprobs?: boolean;
  /** The answer has logits in place of log-probabilities, so training reads the record instead. Default false. */
  readonly reportsLogits?: boolean;
  /** Biases of distinct ids. */
  readonly logitBias: readonly (readonly [id: number, bias: number])[];
}

/** The distribution that one token was drawn from. */
export interface TokenDraw {
  /** Log-probability of the token under it; NaN: not reported. Training then computes it with the weights that drew the token. */
  readonly logprob: number;
  /** Those that could be drawn; null = the whole vocabulary. */
  readonly kept: KeptTokens | null;
}

/** Ids of a vocabulary, or all but those. */
export interface KeptTokens {
  readonly isComplement: boolean;
  /** Ascending, distinct. */
  readonly ids: Int32Array;
}

export interface SamplingTrace {
  /** [n] log-probability of each token under the distribution that it was drawn from; NaN as in {@link TokenDraw}. */
  readonly logprobs: Float32Array;
  /** For each token, the set that could be drawn: see `KeptTokensWriter` of `@trainyard/tokenizer`. */
  readonly kept: Uint8Array;
}

/** A choice's trace is given up above this: 150 tokens drawn from 1,500 each, 2,600 drawn from 90 each. */
export const MAX_TRACE_BYTES = 256 * 1024;

export function changesDistribution(changes: SamplingChanges): boolean {
  const { isMasked, logitBias, reportsLogits = false } = changes;
  return isMasked || logitBias.length > 0 || reportsLogits || distributionChanges(changes).size > 0;
}
