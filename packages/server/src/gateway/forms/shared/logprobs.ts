import type { PromptLogprob, TokenLogprob, TopLogprob } from '@trainyard/backend';
import type { ChoiceLogprobs, PromptLogprobEntry, TokenLogprobEntry, TopLogprobEntry } from '@trainyard/protocol';
import { MIN_LOGPROB } from '@trainyard/protocol/fields';

/** Logprobs of a choice, or of a chunk, in wire form. Null unless requested. */
export function toChoiceLogprobs(
  logprobs: readonly TokenLogprob[] | null,
  hasTokensAsIds: boolean,
): ChoiceLogprobs | null {
  return logprobs && { content: logprobs.map((logprob) => toEntry(logprob, hasTokensAsIds)) };
}

/** An entry keeps its token's own bytes in any spelling of the token. */
function toEntry(logprob: TokenLogprob, hasTokensAsIds: boolean): TokenLogprobEntry {
  const topLogprobs = logprob.top.map((top) => toTopEntry(top, hasTokensAsIds));
  return { ...toTopEntry(logprob, hasTokensAsIds), bytes: logprob.bytes, top_logprobs: topLogprobs };
}

/** With tokens as ids, the entry has the bytes of that text, as vLLM sends and its clients expect. */
function toTopEntry({ id, text, logprob, bytes }: TopLogprob, hasTokensAsIds: boolean): TopLogprobEntry {
  if (!hasTokensAsIds) return { token: text, logprob: floored(logprob), bytes };
  const token = `token_id:${id}`;
  return { token, logprob: floored(logprob), bytes: [...Buffer.from(token)] };
}

/** Entries by id, the prompt's own token first. A Map, because a plain object would sort the ids. */
export type OrderedPromptLogprobs = (ReadonlyMap<string, PromptLogprobEntry> | null)[];

/** Logprobs of a prompt in wire form. */
export function toPromptLogprobs(promptLogprobs: readonly (readonly PromptLogprob[] | null)[]): OrderedPromptLogprobs {
  return promptLogprobs.map((entries) => entries && toOrderedEntries(entries));
}

/** Limits the entry of a prompt token: its own token first, then those up to a rank. */
export function withinRank([own, ...others]: readonly PromptLogprob[], rank: number): PromptLogprob[] {
  // The ranks of the others are their positions, even with equal likelihoods.
  return own === undefined ? [] : [own, ...others.filter((other) => other.rank <= rank)];
}

function toOrderedEntries(entries: readonly PromptLogprob[]): ReadonlyMap<string, PromptLogprobEntry> {
  return new Map(
    entries.map(({ id, logprob, rank, text }) => [
      String(id),
      { logprob: floored(logprob), rank, decoded_token: text },
    ]),
  );
}

function floored(logprob: number): number {
  return Math.max(logprob, MIN_LOGPROB);
}
