/** The logits of a batch's flagged tokens, by their order in the batch, one behind the other: `[numLogits, V]`, row-major. */
export class FlatLogits {
  readonly #logits: Float32Array;
  readonly #vocabSize: number;

  constructor(logits: Float32Array, vocabSize: number) {
    this.#logits = logits;
    this.#vocabSize = vocabSize;
  }

  /** `[V]`, valid (and writable) until the next `run`. */
  row(index: number): Float32Array {
    return this.#logits.subarray(index * this.#vocabSize, (index + 1) * this.#vocabSize);
  }
}
