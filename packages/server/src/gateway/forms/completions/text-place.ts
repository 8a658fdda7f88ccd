/** A place in a text that is written in pieces of bytes, in characters (code points). */
export class TextPlace {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #offset: number;

  constructor(offset: number) {
    this.#offset = offset;
  }

  /** Goes on behind a piece. @returns where the piece begins; the pieces of a character all begin where the character does */
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
