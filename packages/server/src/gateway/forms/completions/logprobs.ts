import type { PromptLogprob, TokenLogprob, TopLogprob } from '@trainyard/backend';
import type { CompletionLogprobs } from '@trainyard/protocol';
import { MIN_LOGPROB } from '@trainyard/protocol/fields';

import type { PromptScoredEvent } from '../../../seams/streams/chat-events.ts';
import { withinRank } from '../shared/logprobs.ts';
import { countCharacters, TextPlace } from './text-place.ts';

/**
 * `CompletionLogprobs` that keep their order of keys in `toOrderedJson`: a plain object would put the text
 * "1" first.
 */
export type OrderedCompletionLogprobs = Omit<CompletionLogprobs, 'top_logprobs'> & {
  top_logprobs: (ReadonlyMap<string, number> | null)[];
};

export interface LogprobFormat {
  /** Number of most likely tokens per position, in addition to its own. */
  numTop: number;
  /** Shows tokens as `token_id:N`. */
  hasTokensAsIds: boolean;
}

/**
 * Log-probabilities of one choice in the columns of a text completion. Keeps the position in the text, so
 * that one writer serves all chunks of a choice.
 */
export class CompletionLogprobWriter {
  readonly #format: LogprobFormat;
  readonly #place: TextPlace;
  /** Columns to put before the next ones. */
  #ahead: OrderedCompletionLogprobs | null;

  /**
   * @param textBefore text before the first token: an echoed prompt
   * @param promptColumns of that prompt, if its logprobs are echoed, too
   */
  constructor(format: LogprobFormat, textBefore: string, promptColumns: OrderedCompletionLogprobs | null) {
    this.#format = format;
    this.#place = new TextPlace(countCharacters(textBefore));
    this.#ahead = promptColumns;
  }

  write(logprobs: readonly TokenLogprob[]): OrderedCompletionLogprobs {
    const columns = this.#prefetch();
    for (const logprob of logprobs) {
      columns.text_offset.push(this.#place.pass(logprob.bytes));
      columns.token_logprobs.push(floored(logprob));
      columns.tokens.push(nameOf(logprob, this.#format));
      columns.top_logprobs.push(toMap(this.#mostLikely(logprob), this.#format));
    }
    return columns;
  }

  #prefetch(): OrderedCompletionLogprobs {
    const ahead = this.#ahead ?? { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
    this.#ahead = null;
    return {
      text_offset: [...ahead.text_offset],
      token_logprobs: [...ahead.token_logprobs],
      tokens: [...ahead.tokens],
      top_logprobs: [...ahead.top_logprobs],
    };
  }

  /**
   * The most likely tokens, and the sampled one if it is not among them. `top` starts with the sampled one
   * and has one more than requested.
   */
  #mostLikely({ top: [sampled, ...others], ...self }: TokenLogprob): TopLogprob[] {
    const { numTop } = this.#format;
    const last = others[numTop - 1];
    const isAmongThem = last === undefined || self.logprob >= last.logprob;
    const numOthers = numTop === 0 ? 0 : isAmongThem ? numTop - 1 : numTop;
    return [sampled ?? self, ...others.slice(0, numOthers)];
  }
}

/** Columns of a prompt; its first token has no log-probability. @param text of the prompt, for the offsets */
export function promptColumns(
  { first, promptLogprobs }: PromptScoredEvent,
  text: string,
  format: LogprobFormat,
): OrderedCompletionLogprobs {
  const columns: OrderedCompletionLogprobs = { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
  for (const entry of promptLogprobs) {
    const own = entry?.[0] ?? null;
    columns.tokens.push(nameOf(own ?? first, format));
    columns.token_logprobs.push(own && floored(own));
    columns.top_logprobs.push(entry && toMap(withinRank(entry, format.numTop), format));
  }
  const pieces = promptLogprobs.map((entry) => (entry?.[0] ?? first).bytes);
  return { ...columns, text_offset: tokenOffsets(pieces, text) };
}

/** Offsets of tokens. Tokens outside the text, such as one that starts every text, have no width. */
function tokenOffsets(tokens: readonly number[][], text: string): number[] {
  // Searches bytes, because Node.js crashes on a search with half of a surrogate pair.
  const start = Buffer.from(tokens.flat()).indexOf(Buffer.from(text));
  // A text that is not found was cut inside a character: then it contains all tokens.
  const [from, to] = start < 0 ? [0, Infinity] : [start, start + Buffer.byteLength(text)];
  const place = new TextPlace(0);
  let at = 0;
  return tokens.map((bytes) => {
    const isShown = at >= from && at < to;
    at += bytes.length;
    return place.pass(isShown ? bytes : []);
  });
}

/** The token itself first, as in vLLM, then the most likely ones. */
function toMap(entries: readonly (TopLogprob | PromptLogprob)[], format: LogprobFormat): ReadonlyMap<string, number> {
  return new Map(entries.map((entry) => [nameOf(entry, format), floored(entry)]));
}

function nameOf({ id, text }: { id: number; text: string }, { hasTokensAsIds }: LogprobFormat): string {
  return hasTokensAsIds ? `token_id:${id}` : text;
}

function floored({ logprob }: { logprob: number }): number {
  return Math.max(logprob, MIN_LOGPROB);
}
