import { quoting, REQUEST_LIMITS } from '@trainyard/protocol';

import { DEFAULT_MAX_LOGPROBS } from '../../../seams/contract/max-logprobs.ts';
import { conflict, named, type SharedField } from './conflict.ts';

export interface LogprobLimits {
  /** Maximum entries per token that a request may ask for; -1 = the whole vocabulary. */
  maxLogprobs: number;
  vocabSize: number;
}

/**
 * Number of entries per token that a request asks for.
 * @param count -1 = the whole vocabulary
 * @throws {RequestError} `request.conflict` above the limit
 */
export function countedEntries(field: SharedField, count: number, { maxLogprobs, vocabSize }: LogprobLimits): number {
  const entries = count === -1 ? vocabSize : count;
  if (maxLogprobs !== -1 && entries > maxLogprobs) {
    const cause = count === -1 ? `-1 (the whole vocabulary of ${vocabSize})` : String(count);
    throw conflict(
      named(field),
      quoting`${named(field)} must be at most ${maxLogprobs} (--max-logprobs), got ${cause}`,
    );
  }
  return Math.min(entries, vocabSize);
}

/**
 * Limits the entries of a reply, which are held until an answer is written; their number is known before the
 * first token.
 * @throws {RequestError} `request.conflict`
 */
export function checkReplyEntries(
  field: SharedField,
  entries: number,
  { maxTokens, numChoices }: { maxTokens: number; numChoices: number },
): void {
  const { replyLogprobEntries } = REQUEST_LIMITS;
  const total = entries * maxTokens * numChoices;
  // Text completions add the sampled token to the others.
  if (entries <= DEFAULT_MAX_LOGPROBS + 1 || total <= replyLogprobEntries) return;
  throw conflict(
    named(field),
    quoting`${named(field)} must give at most ${replyLogprobEntries} entries over all choices, got ${total} (${entries} per token for up to ${maxTokens * numChoices} tokens): ask for fewer per token, or for fewer tokens`,
  );
}
