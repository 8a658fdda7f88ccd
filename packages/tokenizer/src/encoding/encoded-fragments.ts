/**
 * Ids of the plain fragments of the text that was encoded last. The prompts of a conversation's turns begin as the one before did, and only what follows is to
 * be encoded. Holds one text and its ids.
 */
export class EncodedFragments {
  #texts: readonly (string | null)[] = [];
  #pieces: readonly Int32Array[] = [];

  /** @returns the ids of a fragment that stood at the same place of the last text; null where it has another one there */
  at(index: number, text: string): Int32Array | null {
    return this.#texts[index] === text ? this.#pieces[index]! : null;
  }

  /**
   * @param texts a fragment each; null: a special token
   * @param pieces their ids
   */
  keep(texts: readonly (string | null)[], pieces: readonly Int32Array[]): void {
    this.#texts = texts;
    this.#pieces = pieces;
  }
}
