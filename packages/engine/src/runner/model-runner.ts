import type { SamplingParams, Truncation } from '@trainyard/protocol/fields';
import type { DrawKey } from '../sampling/random.ts';

/** An adapter the runner holds in memory. Closing one that the last batch used is allowed; closing it during `run` is not. */
export interface RunnerAdapter {
  readonly sizeBytes: number;
  close(): void;
}

/** A value at once, or later. What has it at once gives it at once: a step over such a runner waits for nothing. */
export type Eventually<Value> = Value | Promise<Value>;

/**
 * The seam under the scheduler: a model with a KV memory of `capacityTokens` cells shared by numbered sequences.
 *
 * A sequence is a list of cells at positions 0, 1, 2 …; a cell may belong to several sequences. The caller keeps the
 * positions gapless and decides which sequence numbers in `[0, maxSequences)` are in use.
 *
 * While a `run` has not settled, the caller calls nothing but `loadAdapter`, and closes only adapters that the batch does not use.
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
  /** Most adapters of one batch, the base model counted as one; at least 1. */
  readonly adaptersPerBatch: number;
  /** `share` takes lengths that are multiples of this, tokens: 1 where cells are shared one by one, the size of a block where blocks are. */
  readonly shareGranularity: number;
  /**
   * Appends the batch's tokens to their sequences and computes them.
   *
   * @returns the logits of the flagged tokens
   * @throws {KvFullError} when no cells were left; nothing was changed then. Any other error leaves the batch's sequences undefined. A runner that
   *   answers later may reject with either.
   */
  run(batch: StepBatch): Eventually<LogitRows>;
  /**
   * As `run`, for runners that can draw where they compute, so that a row of logits need not leave the device. Absent where they cannot.
   *
   * @param draws one a flagged token, in batch order; null = its logits are wanted
   */
  runAndDraw?(batch: StepBatch, draws: readonly (RowDraw | null)[]): Eventually<DrawnRows>;
  /** Lets the empty sequence `to` hold positions `[0, length)` of `from` too, without a copy. */
  share(from: number, to: number, length: number): void;
  /** Removes the positions from `fromPosition` on from one sequence. Cells nobody holds are free. */
  forget(sequence: number, fromPosition: number): void;
  /** Reads an adapter file into memory. @throws when it cannot be read. */
  loadAdapter(path: string): RunnerAdapter;
  close(): void;
}

/** The logits of a batch's flagged tokens, by their order in the batch. */
export interface LogitRows {
  /** `[V]`, valid (and writable) until the next `run`. */
  row(index: number): Float32Array;
}

/** {@link LogitRows} that lie one behind the other: `[numLogits, V]`, row-major. */
export class FlatLogits implements LogitRows {
  readonly #logits: Float32Array;
  readonly #vocabSize: number;

  constructor(logits: Float32Array, vocabSize: number) {
    this.#logits = logits;
    this.#vocabSize = vocabSize;
  }

  row(index: number): Float32Array {
    return this.#logits.subarray(index * this.#vocabSize, (index + 1) * this.#vocabSize);
  }
}

/** The tokens drawn from the rows of a batch, and the logits of the rows that nothing was drawn from. */
export interface DrawnRows extends LogitRows {
  /** The token of a row that came with a draw; -1 = no token is possible. Such a row need not have logits. */
  token(index: number): number;
}

/**
 * How a token is drawn from a row on the device. The key fixes which: among the tokens that truncation leaves, the first of a race in which each
 * arrives after {@link DrawKey.arrival} at a rate of its probability. So it is the token that the engine itself would draw, as far as the logits are
 * the same.
 */
export interface RowDraw {
  readonly settings: Pick<SamplingParams, 'temperature' | keyof Truncation>;
  /** Unused at temperature 0. */
  readonly key: DrawKey;
}

/** The runner had fewer free cells than the batch has tokens. */
export class KvFullError extends Error {
  override readonly name = 'KvFullError';
}

/** One batch, reused from step to step: token, position, sequence, adapter and wants-logits columns. */
export class StepBatch {
  readonly capacity: number;
  readonly tokens: Int32Array; // [capacity]
  readonly positions: Int32Array; // [capacity]
  readonly sequences: Int32Array; // [capacity]
  readonly wantsLogits: Uint8Array; // [capacity]
  /** Indices into {@link adapters}. */
  readonly adapterIndices: Int32Array; // [capacity]
  /** Those that the batch is computed with, each once, in order of their first token; null = the base model. */
  readonly adapters: (RunnerAdapter | null)[] = [];
  /** The same tokens behind the same tokens must give the same logits, as nearly as the runner can, whatever else is in the batch and wherever its cells are. */
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
    this.adapterIndices = new Int32Array(capacity);
  }

  clear(): void {
    this.adapters.length = 0;
    this.isReproducible = false;
    this.leavesCore = false;
    this.length = 0;
    this.numLogits = 0;
  }

  add(
    token: number,
    position: number,
    sequence: number,
    wantsLogits: boolean,
    adapter: RunnerAdapter | null = null,
  ): void {
    const i = this.length;
    if (i >= this.capacity) throw new RangeError(`a batch holds ${this.capacity} tokens`);
    this.tokens[i] = token;
    this.positions[i] = position;
    this.sequences[i] = sequence;
    this.wantsLogits[i] = wantsLogits ? 1 : 0;
    this.adapterIndices[i] = this.#indexOf(adapter);
    this.length = i + 1;
    if (wantsLogits) this.numLogits++;
  }

  /** The adapter of the batch's token `i`. */
  adapterOf(i: number): RunnerAdapter | null {
    return this.adapters[this.adapterIndices[i]!]!;
  }

  #indexOf(adapter: RunnerAdapter | null): number {
    const index = this.adapters.indexOf(adapter);
    return index >= 0 ? index : this.adapters.push(adapter) - 1;
  }
}
