import type { SampledLogprob } from '@trainyard/backend';

/** vLLM writes -9999 for a token that could not be drawn. */
const LEAST_LOGPROB = -9998;

/** The log-probabilities that a server lists for one position. */
export interface ListedTokens {
  /** The sampled token and the most likely ones, each once; tokens that could not be drawn are left out. */
  readonly possible: readonly SampledLogprob[];
  /** Whether every token that is not listed could not be drawn. */
  readonly isComplete: boolean;
  /** No token outside the list is more likely than this; 0: not known. */
  readonly leastListed: number;
}

/**
 * Reads the entries of one position.
 *
 * @param entries the sampled token first, then the most likely others
 * @param numAsked most likely tokens that were asked for
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
  // The sampled token may be far less likely than those that were asked for.
  const others = entries.slice(1);
  const leastListed = others.length === 0 ? 0 : Math.min(...others.map(({ logprob }) => logprob));
  return { possible, isComplete, leastListed };
}
