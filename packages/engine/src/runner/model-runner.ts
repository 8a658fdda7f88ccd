/** An adapter the runner holds in memory. Closing one that the last batch used is allowed; closing it during `run` is not. */
export interface RunnerAdapter {
  readonly sizeBytes: number;
  close(): void;
}

/**
 * The seam under the scheduler: a model with a KV memory of `capacityTokens` cells shared by numbered sequences.
 *
 * A sequence is a list of cells at positions 0, 1, 2 …; a cell may belong to several sequences. The caller keeps the
 * positions gapless and decides which sequence numbers in `[0, maxSequences)` are in use.
 */
export interface ModelRunner {
  readonly vocabSize: number;
  /** KV cells in all. */
  readonly capacityTokens: number;
  /** The longest sequence the model was made for, prompt and reply together; at most `capacityTokens`. */
  readonly contextLength: number;
  readonly maxSequences: number;
  /** Most tokens of one batch. */
  readonly batchTokens: number;
  /**
   * Appends the batch's tokens to their sequences and computes them.
   *
   * @returns Logits of the flagged tokens in batch order, `[numLogits, V]` row-major, valid (and writable) until the next call.
   * @throws {KvFullError} when no cells were left; nothing was changed then. Any other error leaves the batch's sequences undefined.
   */
  run(batch: StepBatch): Float32Array;
  /** Lets the empty sequence `to` hold positions `[0, length)` of `from` too, without a copy. */
  share(from: number, to: number, length: number): void;
  /** Removes the positions from `fromPosition` on from one sequence. Cells nobody holds are free. */
  forget(sequence: number, fromPosition: number): void;
  /** Reads an adapter file into memory. @throws when it cannot be read. */
  loadAdapter(path: string): RunnerAdapter;
  close(): void;
}

/** The runner had fewer free cells than the batch has tokens. */
export class KvFullError extends Error {
  override readonly name = 'KvFullError';
}

/** One batch, reused from step to step: token, position, sequence and wants-logits columns, one adapter for all rows. */
export class StepBatch {
  readonly capacity: number;
  readonly tokens: Int32Array; // [capacity]
  readonly positions: Int32Array; // [capacity]
  readonly sequences: Int32Array; // [capacity]
  readonly wantsLogits: Uint8Array; // [capacity]
  adapter: RunnerAdapter | null = null;
  /** The same tokens behind the same tokens must give the same logits to the bit, whatever else is in the batch and wherever its cells are. */
  isReproducible = false;
  /** Another thread of this process waits for a core, and holds up a request until it gets one. */
  leavesCore = false;
  length = 0;
  numLogits = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.tokens = new Int32Array(capacity);
    this.positions = new Int32Array(capacity);
    this.sequences = new Int32Array(capacity);
    this.wantsLogits = new Uint8Array(capacity);
  }

  clear(adapter: RunnerAdapter | null): void {
    this.adapter = adapter;
    this.isReproducible = false;
    this.leavesCore = false;
    this.length = 0;
    this.numLogits = 0;
  }

  add(token: number, position: number, sequence: number, wantsLogits: boolean): void {
    const i = this.length;
    if (i >= this.capacity) throw new RangeError(`a batch holds ${this.capacity} tokens`);
    this.tokens[i] = token;
    this.positions[i] = position;
    this.sequences[i] = sequence;
    this.wantsLogits[i] = wantsLogits ? 1 : 0;
    this.length = i + 1;
    if (wantsLogits) this.numLogits++;
  }
}
