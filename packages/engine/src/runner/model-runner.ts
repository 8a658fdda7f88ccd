import { DecoderBatch } from '@trainyard/decoder';
import type { SamplingParams, Truncation } from '@trainyard/protocol/fields';
import type { DrawKey } from '../sampling/random.ts';

export { FlatLogits, KvFullError } from '@trainyard/decoder';

/** May be closed after the last batch that used it, but not during `run`. */
export interface RunnerAdapter {
  readonly sizeBytes: number;
  close(): void;
}

/** Runners that have the value return it directly, so a step waits for nothing. */
export type Eventually<Value> = Value | Promise<Value>;

/**
 * A model with a KV memory of `capacityTokens` cells, shared by numbered sequences.
 *
 * A sequence is a list of cells at positions 0, 1, 2 …; a cell may belong to several. The caller keeps the
 * positions gapless and assigns sequence numbers in `[0, maxSequences)`. Until a `run` settles, it calls only
 * `loadAdapter`, and closes only adapters outside the batch.
 */
export interface ModelRunner {
  readonly vocabSize: number;
  readonly capacityTokens: number;
  /** Prompt plus reply, by the model's training; at most `capacityTokens`. */
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  /** Counts the base model as one; at least 1. */
  readonly adaptersPerBatch: number;
  /** Divisor of the lengths that `share` takes: 1 for single cells, or the block size; Infinity: nothing is shared. */
  readonly shareGranularity: number;
  /**
   * Most first tokens of a sequence, up to `length`, that `share` takes: models with a recurrent state have it only after
   * some tokens. Default: `length`.
   */
  shareableLength?(sequence: number, length: number): number;
  /**
   * Appends the batch's tokens to their sequences and computes them.
   *
   * @returns the logits of the flagged tokens
   * @throws {KvFullError} if cells ran out; nothing has changed then. Other errors leave the batch's sequences
   * undefined. A runner that answers later may reject with either.
   */
  run(batch: StepBatch): Eventually<LogitRows>;
  /**
   * Draws on the device, so that logits need not leave it.
   *
   * @param draws one per flagged token, in batch order; null = return its logits
   */
  runAndDraw?(batch: StepBatch, draws: readonly (RowDraw | null)[]): Eventually<DrawnRows>;
  /** Shares without a copy. */
  share(from: number, to: number, length: number): void;
  /** Cells without a holder become free. */
  forget(sequence: number, fromPosition: number): void;
  /** Reads an adapter file into memory. @throws if it is unreadable */
  loadAdapter(path: string): RunnerAdapter;
  close(): void;
}

/** Logits of a batch's flagged tokens, in batch order. */
export interface LogitRows {
  /** Row `[V]`, valid and writable until the next `run`. */
  row(index: number): Float32Array;
}

/** Tokens drawn from the rows of a batch, and the logits of the other rows. */
export interface DrawnRows extends LogitRows {
  /** Token drawn from a row; -1 = no token is possible. The row need not have logits. */
  token(index: number): number;
}

/**
 * The key determines the token: of those that truncation leaves, the first in a race with arrivals by
 * {@link DrawKey.arrival} at rates of their probabilities. With equal logits the engine itself would draw the
 * same token.
 */
export interface RowDraw {
  readonly settings: Pick<SamplingParams, 'temperature' | keyof Truncation>;
  /** Unused at temperature 0. */
  readonly key: DrawKey;
}

/** Reused for each step. */
export class StepBatch extends DecoderBatch<RunnerAdapter> {
  /** Equal prefixes must give equal logits, as nearly as the runner can, in any batch and any cells. */
  isReproducible = false;
  /** Another thread of this process waits for a core that a request needs. */
  leavesCore = false;

  override clear(): void {
    super.clear();
    this.isReproducible = false;
    this.leavesCore = false;
  }
}
