import type { CompletesWith } from '../idempotency/idempotency.ts';

/** Facts that decide if a checkpoint is kept. */
export interface CheckpointState {
  readonly id: string;
  readonly step: number;
  /** See `Checkpoint`; for a removed one, its key in the bin. */
  readonly directoryKey: string | null;
  readonly createdAt: number;
  /** Time of the user's mark; null if there is none. */
  readonly keptAt: number | null;
  /** End of the version's use by requests; null if none has named it. */
  readonly usedUntil: number | null;
  /**
   * True if its files are referenced by anything but checkpoints of this model: a live job, an export, an
   * adapter, another model.
   */
  readonly isReferenced: boolean;
  /**
   * True if another model may continue from the optimizer state in its files: it was trained up to them, and
   * this model started from them.
   */
  readonly isOptimizerShared: boolean;
  /** Bytes of its files without the optimizer state; null until measured. */
  readonly sizeBytes: number | null;
  /** Bytes of the optimizer state; null until measured. */
  readonly optimizerBytes: number | null;
  /** True if jobs must start from it with a fresh optimizer, because its state was removed. */
  readonly isOptimizerDropped: boolean;
  /** Time of removal by the policy; null while it is live. */
  readonly removedAt: number | null;
}

export function liveCheckpoints(states: readonly CheckpointState[]): CheckpointState[] {
  return states.filter(({ removedAt }) => removedAt === null);
}

export interface CheckpointSizes {
  readonly sizeBytes: number;
  readonly optimizerBytes: number;
}

export interface RemovedCheckpoints {
  readonly steps: number[];
  /** Directories for the caller to move to the bin. */
  readonly directoryKeys: string[];
  /** Adapter versions that no model and no import has any more. */
  readonly digests: string[];
}

export interface MarkedCheckpoints {
  readonly steps: number[];
  /** Steps that do not exist, or whose files are gone for good. */
  readonly notFoundSteps: number[];
}

export interface CheckpointTotals {
  readonly numCheckpoints: number;
  readonly numMarked: number;
  readonly numUnmeasured: number;
  readonly sizeBytes: number;
  readonly optimizerBytes: number;
}

/**
 * Decides which checkpoints are kept. A removed one keeps its whole row until `forget`, so that it can be restored.
 */
export interface CheckpointRetention {
  /** Models with a live checkpoint made since then. */
  listModelsTrainedSince(at: number): Promise<string[]>;
  /** States by step: live checkpoints, and those that can still be restored. */
  listStates(modelId: string): Promise<CheckpointState[]>;
  setSizes(directoryKey: string, sizes: CheckpointSizes): Promise<void>;
  /** Holds a version at least until that time. */
  hold(modelId: string, step: number, until: number): Promise<void>;
  /**
   * Marks live and removed steps, or removes the marks. The policy never removes a marked step. A removed
   * step that is marked is live again: its files must be restored before.
   */
  mark(
    modelId: string,
    steps: readonly number[],
    isKept: boolean,
    completes?: CompletesWith<MarkedCheckpoints>,
  ): Promise<MarkedCheckpoints>;
  /**
   * Removes the given steps that the transaction finds removable: not the latest, not marked, not in use, not
   * referenced.
   */
  remove(modelId: string, steps: readonly number[]): Promise<RemovedCheckpoints>;
  /**
   * Marks the optimizer state of these steps as removed; jobs then start from them with a fresh one. The
   * transaction leaves out the latest step, marked steps, steps that a live job starts from, and states that
   * another model may continue from.
   *
   * @returns directories for the caller to remove the state from
   */
  dropOptimizers(modelId: string, steps: readonly number[]): Promise<string[]>;
  /** True if jobs start from that directory with a fresh optimizer, because its state was removed. */
  isOptimizerDropped(directoryKey: string): Promise<boolean>;
  /** Makes these removed checkpoints, by id, impossible to restore. */
  forget(ids: readonly string[]): Promise<void>;
  sum(): Promise<CheckpointTotals>;
}
