import type { StreamDecoder } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';

/** Finds a text in a reply, whatever the token borders, control tokens' texts included. */
export class MarkerFinder {
  readonly #marker: string;
  readonly #tokenizer: TextTokenizer;
  readonly #decoder: StreamDecoder;
  /** The end of the text so far, as long as the marker could still begin in it. */
  #tail = '';
  isFound = false;

  constructor(marker: string, tokenizer: TextTokenizer) {
    this.#marker = marker;
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer.createDecoder({ skipSpecial: false });
  }

  /** @returns when the token completes the marker, what it says behind it (white space in front left out); else null */
  push(token: number): string | null {
    const text = this.#tail + this.#decoder.push(token);
    const rest = this.#behind(text);
    if (rest === null) this.#tail = text.slice(Math.max(0, text.length - this.#marker.length + 1));
    else this.isFound = true;
    return rest;
  }

  /** The value that {@link push} would return, without advancing. A character that begins before the token does not complete a marker here. */
  restBehind(token: number): string | null {
    return this.#behind(this.#tail + this.#tokenizer.tokenText(token));
  }

  #behind(text: string): string | null {
    const at = text.indexOf(this.#marker);
    return at < 0 ? null : text.slice(at + this.#marker.length).trimStart();
  }
}
