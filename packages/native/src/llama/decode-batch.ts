import assert from 'node:assert';
import { koffi } from '../binding/koffi.ts';
import type { Batch } from '../binding/structs.ts';

/**
 * Tokens of one `llama_decode` call, in memory that C reads directly. Positions of one sequence must rise by one
 * and continue its cache.
 */
export class DecodeBatch {
  readonly capacity: number;
  readonly #vocabSize: number;
  readonly #maxSequences: number;
  // One ArrayBuffer each: small typed arrays may be in V8's moving heap, an explicit buffer never moves.
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #sequences: Int32Array;
  readonly #wantsLogits: Int8Array;
  // References that keep the memory at C's addresses alive.
  readonly #sequenceCounts: Int32Array;
  readonly #sequencePointers: BigUint64Array;
  readonly #struct: Batch;
  #length = 0;
  #numLogits = 0;

  constructor(capacity: number, limits: { vocabSize: number; maxSequences: number }) {
    this.capacity = capacity;
    this.#vocabSize = limits.vocabSize;
    this.#maxSequences = limits.maxSequences;
    this.#tokens = new Int32Array(new ArrayBuffer(capacity * 4));
    this.#positions = new Int32Array(new ArrayBuffer(capacity * 4));
    this.#sequences = new Int32Array(new ArrayBuffer(capacity * 4));
    this.#wantsLogits = new Int8Array(new ArrayBuffer(capacity));
    this.#sequenceCounts = new Int32Array(new ArrayBuffer(capacity * 4)).fill(1);
    this.#sequencePointers = new BigUint64Array(new ArrayBuffer(capacity * 8));
    const sequences = koffi().address(this.#sequences.buffer);
    for (let row = 0; row < capacity; row++) this.#sequencePointers[row] = sequences + BigInt(row * 4);
    this.#struct = {
      n_tokens: 0,
      token: koffi().address(this.#tokens.buffer),
      embd: null,
      pos: koffi().address(this.#positions.buffer),
      n_seq_id: koffi().address(this.#sequenceCounts.buffer),
      seq_id: koffi().address(this.#sequencePointers.buffer),
      logits: koffi().address(this.#wantsLogits.buffer),
    };
  }

  get length(): number {
    return this.#length;
  }

  /** Rows of the next `logits()`: those added with `wantsLogits`. */
  get numLogits(): number {
    return this.#numLogits;
  }

  clear(): void {
    this.#length = 0;
    this.#numLogits = 0;
  }

  /** @param position 0-based index of the token in its sequence @param sequence below the context's `maxSequences` */
  add(token: number, position: number, sequence: number, wantsLogits: boolean): void {
    const row = this.#length;
    const isInside =
      row < this.capacity &&
      token >= 0 &&
      token < this.#vocabSize &&
      position >= 0 &&
      sequence >= 0 &&
      sequence < this.#maxSequences;
    if (!isInside) this.#reject(token, position, sequence);
    this.#tokens[row] = token;
    this.#positions[row] = position;
    this.#sequences[row] = sequence;
    this.#wantsLogits[row] = wantsLogits ? 1 : 0;
    this.#length = row + 1;
    if (wantsLogits) this.#numLogits++;
  }

  /** Separate from `add`, so that the hot path builds no messages. */
  #reject(token: number, position: number, sequence: number): never {
    assert(this.#length < this.capacity, `the batch is full: ${this.capacity} rows`);
    assert(token >= 0 && token < this.#vocabSize, `token ${token} is outside the vocabulary of ${this.#vocabSize}`);
    assert(position >= 0, `position ${position} is negative`);
    assert.fail(`sequence ${sequence} is outside the context's ${this.#maxSequences}`);
  }

  /** @internal C struct of this batch, valid while the batch is reachable. */
  toStruct(): Batch {
    this.#struct.n_tokens = this.#length;
    return this.#struct;
  }
}
