/** Position in a text that comes in chunks of bytes, in characters (code points). */
export class TextPlace {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #offset: number;

  constructor(offset: number) {
    this.#offset = offset;
  }

  /**
   * Advances by a chunk.
   * @returns the start of the chunk; chunks of one character all start with the character
   */
  pass(bytes: readonly number[]): number {
    const offset = this.#offset;
    this.#offset += countCharacters(this.#decoder.decode(Uint8Array.from(bytes), { stream: true }));
    return offset;
  }
}

export function countCharacters(text: string): number {
  let count = 0;
  for (const _character of text) count += 1;
  return count;
}
