import { DecoderBatch } from '@trainyard/decoder';
import type { SamplingParams, Truncation } from '@trainyard/protocol/fields';
import type { DrawKey } from '../sampling/random.ts';

export { FlatLogits, KvFullError } from '@trainyard/decoder';

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

/** One batch of the scheduler, reused from step to step. */
export class StepBatch extends DecoderBatch<RunnerAdapter> {
  /** The same tokens behind the same tokens must give the same logits, as nearly as the runner can, whatever else is in the batch and wherever its cells are. */
  isReproducible = false;
  /** Another thread of this process waits for a core, and holds up a request until it gets one. */
  leavesCore = false;

  override clear(): void {
    super.clear();
    this.isReproducible = false;
    this.leavesCore = false;
  }
}
