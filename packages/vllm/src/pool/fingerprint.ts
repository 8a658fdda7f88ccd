import type { SampledEntry } from '@trainyard/backend';

import { UnusableServer } from '../server/server-facts.ts';

/** Log-probabilities of the most likely tokens after each of some fixed prompts, by token id. */
export type Fingerprint = readonly ReadonlyMap<number, number>[];

/**
 * Mean distance from the pool, nats, above which a server has other weights. Rounding of another card or
 * batch gives less than 0.05.
 */
const OTHER_WEIGHTS = 0.15;
const NUM_PROMPTS = 4;
const NUM_PROMPT_TOKENS = 32;
/**
 * Tokens per prompt. Two servers with the same weights list nearly the same ones: only the last ranks are
 * close to each other.
 */
const NUM_LISTED = 20;
/** Shorter lists may share few tokens because of rounding. */
const MIN_LISTED = 5;
/** Minimum share of a list's tokens that equal weights have in common. */
const MIN_SHARED = 0.5;

/**
 * Prompts of a fingerprint. Tokens are sampled after them: vLLM may end with an error if it scores a prompt
 * under `--enable-lora` next to other requests (vllm-project/vllm issue 16668).
 */
export function fingerprintPrompts(vocabSize: number): readonly (readonly number[])[] {
  const tokenIds = Array.from({ length: NUM_PROMPT_TOKENS }, (_, at) => (11 + 37 * at) % vocabSize);
  return Array.from({ length: NUM_PROMPTS }, (_, at) => tokenIds.slice(0, ((at + 1) * tokenIds.length) / NUM_PROMPTS));
}

/**
 * Tokens to list per prompt; null if the servers list too few for a fingerprint. @param maxLogprobs negative:
 * no limit
 */
export function numListedTokens(maxLogprobs: number): number | null {
  const most = maxLogprobs < 0 ? NUM_LISTED : Math.min(NUM_LISTED, maxLogprobs);
  return most < MIN_LISTED ? null : most;
}

/** The most likely tokens of one draw. The sampled one is random: it counts only as one of the list. */
export function likeliest({ top }: SampledEntry, numListed: number): ReadonlyMap<number, number> {
  const order = top.toSorted((a, b) => b.logprob - a.logprob).slice(0, numListed);
  return new Map(order.map(({ id, logprob }) => [id, logprob]));
}

/**
 * Compares a server with the pool, whose fingerprint is that of its first server. @throws {UnusableServer}
 */
export function compareFingerprints(pool: Fingerprint, found: Fingerprint, server: string): void {
  const differences = pool.flatMap((expected, at) => {
    const listed = found[at] ?? new Map<number, number>();
    const shared = [...expected].filter(([id]) => listed.has(id));
    return shared.length < MIN_SHARED * expected.size
      ? [Infinity]
      : shared.map(([id, logprob]) => Math.abs(logprob - listed.get(id)!));
  });
  const mean = differences.reduce((sum, difference) => sum + difference, 0) / differences.length;
  if (mean <= OTHER_WEIGHTS) return;
  const words = Number.isFinite(mean)
    ? `log-probabilities after ${pool.length} fixed prompts differ by ${mean.toPrecision(2)} nats on average`
    : `other tokens are likely after ${pool.length} fixed prompts`;
  throw new UnusableServer(
    `${server} has different weights than the pool: ${words} (at most ${OTHER_WEIGHTS}); serve the same model on all servers, or restart this service if the new one is right`,
  );
}
