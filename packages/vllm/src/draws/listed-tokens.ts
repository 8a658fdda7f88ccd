import type { SampledLogprob } from '@trainyard/backend';

/** Threshold below which a token was impossible: vLLM writes -9999. */
const LEAST_LOGPROB = -9998;

/** Log-probabilities that a server lists for one position. */
export interface ListedTokens {
  /** The sampled token and the most likely ones, each once, without impossible tokens. */
  readonly possible: readonly SampledLogprob[];
  /** True if every unlisted token was impossible. */
  readonly isComplete: boolean;
  /** Upper bound for tokens outside the list; 0 if unknown. */
  readonly leastListed: number;
}

/**
 * Reads the entries of one position.
 *
 * @param entries the sampled token first, then the most likely others
 * @param numAsked number of most likely tokens requested
 */
export function readListedTokens(
  entries: readonly SampledLogprob[],
  numAsked: number,
  vocabSize: number,
): ListedTokens {
  const possible = entries.filter(({ logprob }, at) => at === 0 || logprob > LEAST_LOGPROB);
  const isComplete =
    possible.length < entries.length ||
    entries.length < numAsked ||
    new Set(possible.map(({ id }) => id)).size >= vocabSize;
  // The sampled token may be far less likely than the requested ones.
  const others = entries.slice(1);
  const leastListed = others.length === 0 ? 0 : Math.min(...others.map(({ logprob }) => logprob));
  return { possible, isComplete, leastListed };
}
