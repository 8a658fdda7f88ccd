import type { StreamDecoder } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';

/** Finds a text in a reply across token borders, including the texts of control tokens. */
export class MarkerFinder {
  readonly #marker: string;
  readonly #tokenizer: TextTokenizer;
  readonly #decoder: StreamDecoder;
  /** End of the text so far, in which the marker could still start. */
  #tail = '';
  isFound = false;

  constructor(marker: string, tokenizer: TextTokenizer) {
    this.#marker = marker;
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer.createDecoder({ skipSpecial: false });
  }

  /**
   * @returns the token's text after the marker, without leading white space, if the token completes the
   *   marker; else null
   */
  push(token: number): string | null {
    const text = this.#tail + this.#decoder.push(token);
    const rest = this.#after(text);
    if (rest === null) this.#tail = text.slice(Math.max(0, text.length - this.#marker.length + 1));
    else this.isFound = true;
    return rest;
  }

  /**
   * Returns the result of {@link push} without advancing. A character that starts before the token does not
   * complete a marker here.
   */
  restAfter(token: number): string | null {
    return this.#after(this.#tail + this.#tokenizer.tokenText(token));
  }

  #after(text: string): string | null {
    const at = text.indexOf(this.#marker);
    return at < 0 ? null : text.slice(at + this.#marker.length).trimStart();
  }
}
