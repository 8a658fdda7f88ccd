import { DecoderBatch } from '@trainyard/decoder';
import type { SamplingParams, Truncation } from '@trainyard/protocol/fields';
import type { DrawKey } from '../sampling/random.ts';

export { FlatLogits, KvFullError } from '@trainyard/decoder';

/** An adapter in the runner's memory. It may be closed after the last batch that used it, but not during `run`. */
export interface RunnerAdapter {
  readonly sizeBytes: number;
  close(): void;
}

/** A value now or later. Runners that have it now return it directly, so a step waits for nothing. */
export type Eventually<Value> = Value | Promise<Value>;

/**
 * Interface to a model with a KV memory of `capacityTokens` cells, shared by numbered sequences.
 *
 * A sequence is a list of cells at positions 0, 1, 2 …; a cell may belong to several sequences. The caller keeps
 * the positions gapless and assigns sequence numbers in `[0, maxSequences)`.
 *
 * Until a `run` settles, the caller calls only `loadAdapter`, and closes only adapters outside the batch.
 */
export interface ModelRunner {
  readonly vocabSize: number;
  /** Number of KV cells. */
  readonly capacityTokens: number;
  /** Maximum tokens per sequence by the model's training, prompt plus reply; at most `capacityTokens`. */
  readonly contextLength: number;
  readonly maxSequences: number;
  /** Maximum tokens per batch. */
  readonly batchTokens: number;
  /** Maximum adapters per batch, counting the base model as one; at least 1. */
  readonly adaptersPerBatch: number;
  /** Divisor of the lengths that `share` takes, tokens: 1 for single cells, or the block size. */
  readonly shareGranularity: number;
  /**
   * Appends the batch's tokens to their sequences and computes them.
   *
   * @returns the logits of the flagged tokens
   * @throws {KvFullError} if cells ran out; nothing has changed then. Other errors leave the batch's sequences
   * undefined. A runner that answers later may reject with either.
   */
  run(batch: StepBatch): Eventually<LogitRows>;
  /**
   * Version of `run` for runners that can draw on the device, so that logits need not leave it.
   *
   * @param draws one per flagged token, in batch order; null = return its logits
   */
  runAndDraw?(batch: StepBatch, draws: readonly (RowDraw | null)[]): Eventually<DrawnRows>;
  /** Makes the empty sequence `to` hold positions `[0, length)` of `from` too, without a copy. */
  share(from: number, to: number, length: number): void;
  /** Removes the positions from `fromPosition` on from one sequence. Cells without a holder become free. */
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
 * Parameters of a draw on the device. The key determines the token: of those that truncation leaves, the first
 * in a race with arrivals by {@link DrawKey.arrival} at rates of their probabilities. With equal logits the
 * engine itself would draw the same token.
 */
export interface RowDraw {
  readonly settings: Pick<SamplingParams, 'temperature' | keyof Truncation>;
  /** Unused at temperature 0. */
  readonly key: DrawKey;
}

/** One batch of the scheduler, reused for each step. */
export class StepBatch extends DecoderBatch<RunnerAdapter> {
  /** Equal prefixes must give equal logits, as nearly as the runner can, in any batch and any cells. */
  isReproducible = false;
  /** True while another thread of this process waits for a core that a request needs. */
  leavesCore = false;

  override clear(): void {
    super.clear();
    this.isReproducible = false;
    this.leavesCore = false;
  }
}
