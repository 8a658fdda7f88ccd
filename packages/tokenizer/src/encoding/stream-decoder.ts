/**
 * Incremental decoder of ids to text. `push` returns the text that is certain, `end` the rest; then it is used
 * up.
 */
export interface StreamDecoder {
  /** @returns '' while a character is incomplete (an emoji is two or three tokens) or the token is skipped */
  push(id: number): string;
  /** @returns U+FFFD for an incomplete character at the end, else '' */
  end(): string;
}

export interface DecoderParts {
  tokenBytes(id: number): Uint8Array;
  skips(id: number): boolean;
  /** True for vocabularies whose encoder prepends a space to the text (SentencePiece). */
  dropsLeadingSpace: boolean;
}

/** Joined texts equal the decoding of all bytes at once, whatever the token borders. */
export class Utf8StreamDecoder implements StreamDecoder {
  readonly #parts: DecoderParts;
  // ignoreBOM keeps a leading U+FEFF, which is text here; not fatal: invalid bytes become U+FFFD.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #isAtStart: boolean;

  constructor(parts: DecoderParts) {
    this.#parts = parts;
    this.#isAtStart = parts.dropsLeadingSpace;
  }

  push(id: number): string {
    if (this.#parts.skips(id)) return '';
    return this.#withoutLeadingSpace(this.#decoder.decode(this.#parts.tokenBytes(id), { stream: true }));
  }

  end(): string {
    return this.#withoutLeadingSpace(this.#decoder.decode());
  }

  #withoutLeadingSpace(text: string): string {
    if (!this.#isAtStart || text === '') return text;
    this.#isAtStart = false;
    return text.startsWith(' ') ? text.slice(1) : text;
  }
}
