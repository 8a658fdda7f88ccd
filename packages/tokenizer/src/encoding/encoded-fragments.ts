/** Ids of the last text's plain fragments: prompts of a conversation start like the previous one. */
export class EncodedFragments {
  #texts: readonly (string | null)[] = [];
  #pieces: readonly Int32Array[] = [];

  /** @returns the ids of a fragment with the same index in the last text; null if it differs */
  at(index: number, text: string): Int32Array | null {
    return this.#texts[index] === text ? this.#pieces[index]! : null;
  }

  /** @param texts one per fragment; null for a special token @param pieces their ids */
  keep(texts: readonly (string | null)[], pieces: readonly Int32Array[]): void {
    this.#texts = texts;
    this.#pieces = pieces;
  }
}
