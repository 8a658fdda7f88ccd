import type { TokenLogprob, TopLogprob } from '@trainyard/engine';
import type { ChoiceLogprobs, TokenLogprobEntry } from '@trainyard/protocol';

/** JSON has no −∞; clients of vLLM know this number. */
export const MIN_LOGPROB = -9999;

/** The logprobs of a choice, or of a chunk, as the wire has them. Null when they were not asked for. */
export function toChoiceLogprobs(
  logprobs: readonly TokenLogprob[] | null,
  hasTokensAsIds: boolean,
): ChoiceLogprobs | null {
  return logprobs && { content: logprobs.map((logprob) => toEntry(logprob, hasTokensAsIds)) };
}

function toEntry(logprob: TokenLogprob, hasTokensAsIds: boolean): TokenLogprobEntry {
  return {
    ...toTopEntry(logprob, hasTokensAsIds),
    top_logprobs: logprob.top.map((top) => toTopEntry(top, hasTokensAsIds)),
  };
}

function toTopEntry({ id, text, logprob, bytes }: TopLogprob, hasTokensAsIds: boolean) {
  return { token: hasTokensAsIds ? `token_id:${id}` : text, logprob: Math.max(logprob, MIN_LOGPROB), bytes };
}
