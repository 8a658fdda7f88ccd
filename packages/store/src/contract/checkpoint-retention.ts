/** Facts by which a checkpoint is kept or removed. */
export interface CheckpointState {
  readonly id: string;
  readonly step: number;
  /** See `Checkpoint`; of a removed one the key under which the bin has it. */
  readonly directoryKey: string | null;
  readonly createdAt: number;
  /** Time of the user's mark; null: there is none. */
  readonly keptAt: number | null;
  /** Requests use the version until then; null: none has named it. */
  readonly usedUntil: number | null;
  /** Whether something other than checkpoints of this model refers to its files: a live job, an export, an adapter, another model. */
  readonly isReferenced: boolean;
  /** Whether another model may continue from the optimizer's state in its files: it was trained to them, and this model began with them. */
  readonly isOptimizerShared: boolean;
  /** Bytes of its files without the optimizer's state; null: not measured yet. */
  readonly sizeBytes: number | null;
  /** Bytes of the optimizer's state; null: not measured yet. */
  readonly optimizerBytes: number | null;
  /** Whether jobs must start from it with a fresh optimizer, because its state was removed. */
  readonly isOptimizerDropped: boolean;
  /** When the policy removed it; null: it is live. */
  readonly removedAt: number | null;
}

/** Checkpoints without those that the policy removed and that can be restored. */
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

/** Totals over the live checkpoints of all models. */
export interface CheckpointTotals {
  readonly numCheckpoints: number;
  readonly numMarked: number;
  readonly numUnmeasured: number;
  readonly sizeBytes: number;
  readonly optimizerBytes: number;
}

/** The part of `Store` that decides which checkpoints are kept. A removed one keeps its row whole until `forgetRemoved`, so that it can be restored. */
export interface CheckpointRetention {
  /** Models with a live checkpoint that was made since then. */
  listModelsTrainedSince(at: number): Promise<string[]>;
  /** By step: the live ones, and those that can still be restored. */
  listCheckpointStates(modelId: string): Promise<CheckpointState[]>;
  setCheckpointSizes(directoryKey: string, sizes: CheckpointSizes): Promise<void>;
  /** Holds a version until that time at least. */
  holdCheckpoint(modelId: string, step: number, until: number): Promise<void>;
  /** Removes those of the steps that are still removable in the transaction: not the latest, not marked, not in use, not referenced. */
  removeCheckpoints(modelId: string, steps: readonly number[]): Promise<RemovedCheckpoints>;
  /**
   * Notes that the optimizer's state of these steps goes; jobs start from them with a fresh one from then on. Leaves out, by what the transaction finds: the
   * latest step, marked steps, steps that a live job starts from, and states that another model may continue from.
   *
   * @returns directories for the caller to remove the state from
   */
  dropOptimizers(modelId: string, steps: readonly number[]): Promise<string[]>;
  /** Whether jobs start from that directory with a fresh optimizer, because its state was removed. */
  isOptimizerDropped(directoryKey: string): Promise<boolean>;
  /** Ends the possibility to restore these removed checkpoints, by id. */
  forgetRemoved(ids: readonly string[]): Promise<void>;
  sumCheckpoints(): Promise<CheckpointTotals>;
}
