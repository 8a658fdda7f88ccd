import type { TokenLogprob, TopLogprob } from '@trainyard/engine';
import type { CompletionLogprobs } from '@trainyard/protocol';

import { MIN_LOGPROB } from './logprobs.ts';

/**
 * Log-probabilities of one choice in the columns of a text completion. It keeps the place in the text, so that one writer serves
 * all chunks of a choice.
 */
export class CompletionLogprobWriter {
  readonly #numTop: number;
  readonly #hasTokensAsIds: boolean;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  /** Characters (code points) of `text` before the next token. */
  #offset: number;

  /** @param textBefore what `text` begins with before the first token: an echoed prompt */
  constructor(options: { numTop: number; hasTokensAsIds: boolean; textBefore: string }) {
    this.#numTop = options.numTop;
    this.#hasTokensAsIds = options.hasTokensAsIds;
    this.#offset = countCharacters(options.textBefore);
  }

  write(logprobs: readonly TokenLogprob[]): CompletionLogprobs {
    const columns: CompletionLogprobs = { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
    for (const logprob of logprobs) {
      columns.text_offset.push(this.#offset);
      columns.token_logprobs.push(floored(logprob));
      columns.tokens.push(this.#nameOf(logprob));
      columns.top_logprobs.push(
        Object.fromEntries(this.#mostLikely(logprob).map((entry) => [this.#nameOf(entry), floored(entry)])),
      );
      // The pieces of a character all begin where the character does.
      this.#offset += countCharacters(this.#decoder.decode(Uint8Array.from(logprob.bytes), { stream: true }));
    }
    return columns;
  }

  /** The most likely tokens, and the sampled one where it is not among them; `top` has the sampled one first and one more than asked for. */
  #mostLikely({ top: [sampled, ...others], ...self }: TokenLogprob): TopLogprob[] {
    const last = others[this.#numTop - 1];
    const isAmongThem = last === undefined || self.logprob >= last.logprob;
    const numOthers = this.#numTop === 0 ? 0 : isAmongThem ? this.#numTop - 1 : this.#numTop;
    return [sampled ?? self, ...others.slice(0, numOthers)].toSorted((first, second) => second.logprob - first.logprob);
  }

  #nameOf({ id, text }: TopLogprob): string {
    return this.#hasTokensAsIds ? `token_id:${id}` : text;
  }
}

function floored({ logprob }: TopLogprob): number {
  return Math.max(logprob, MIN_LOGPROB);
}

function countCharacters(text: string): number {
  let count = 0;
  for (const _character of text) count += 1;
  return count;
}
