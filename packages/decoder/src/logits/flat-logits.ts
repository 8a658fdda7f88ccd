/** Logits of a batch's flagged tokens in batch order: `[numLogits, V]`, row-major. */
export class FlatLogits {
  readonly #logits: Float32Array;
  readonly #vocabSize: number;

  constructor(logits: Float32Array, vocabSize: number) {
    this.#logits = logits;
    this.#vocabSize = vocabSize;
  }

  /** Row `[V]`, valid and writable until the next `run`. */
  row(index: number): Float32Array {
    return this.#logits.subarray(index * this.#vocabSize, (index + 1) * this.#vocabSize);
  }
}
