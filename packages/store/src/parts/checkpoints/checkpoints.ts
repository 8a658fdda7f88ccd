import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { CompletesWith } from '../idempotency/idempotency.ts';
import type { Metrics } from '../runs/runs.ts';

/** Checkpoints of a model, from a step to another, both included. */
export type CheckpointQuery = OrderedPageQuery & { modelId: string; minStep?: number; maxStep?: number };

/** Checkpoints of models. */
export interface Checkpoints {
  /** Checkpoints by step; includes step 0 (no artifact). */
  list(query: CheckpointQuery): Promise<Page<Checkpoint>>;
  get(modelId: string, step: number): Promise<Checkpoint | null>;
  /** Returns the checkpoint with the highest step; null if all were deleted. */
  latest(modelId: string): Promise<Checkpoint | null>;
  /**
   * Directories of the newest kept checkpoints, at most `limit`, by digest of their weights. For equal
   * weights the newest counts.
   */
  newestVersions(modelId: string, limit: number): Promise<ReadonlyMap<string, string>>;
  /**
   * Step at which rollouts took over: that of the last supervised job up to `step`, else 0. Deleted
   * checkpoints count.
   */
  rolloutsBeganAt(modelId: string, step: number): Promise<number>;
  /**
   * Deletes checkpoints; duplicate steps count once. The caller removes `directoryKeys` from the blobs
   * afterwards.
   */
  delete(
    modelId: string,
    steps: readonly number[],
    completes?: CompletesWith<DeleteCheckpointsResult>,
  ): Promise<DeleteCheckpointsResult>;
  /** Adds or replaces these metrics, keeping the others. Null if there is no such checkpoint. */
  mergeMetrics(modelId: string, step: number, metrics: Metrics): Promise<Checkpoint | null>;
  /** Returns those of these adapter digests that no checkpoint and no imported adapter has. */
  unusedDigests(digests: readonly string[]): Promise<string[]>;
  /** Kept steps with these digests, newest first; several steps may have equal weights. */
  stepsOf(digests: readonly string[]): Promise<NamedStep[]>;
}

/** Shape of a model's LoRA adapter, fixed at creation. */
export interface LoraShape {
  rank: number;
  alpha: number;
  targets: readonly string[];
  initSeed: number;
  /** True if the scale is alpha / √rank. Absent: false. */
  isRankStabilised?: boolean;
  /** Ranks by layer and by module. Absent: none. */
  rankPattern?: Readonly<Record<string, number>>;
  /** Alphas by layer and by module. Absent: none. */
  alphaPattern?: Readonly<Record<string, number>>;
}

export interface Checkpoint {
  id: string;
  modelId: string;
  step: number;
  /** Directory key in the blobs; null = the untouched base model. Several checkpoints may share one. */
  directoryKey: string | null;
  /** SHA-256 of the adapter weights; null exactly when `directoryKey` is null. */
  digest: string | null;
  metrics: Metrics;
  createdAt: number;
}

export interface NamedStep {
  readonly digest: string;
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly step: number;
}

export interface DeleteCheckpointsResult {
  deletedCount: number;
  /** Missing steps in the requested order, without duplicates. */
  notFoundSteps: number[];
  /**
   * Directories that are no longer referenced; one that a live job started from is kept until that job ends.
   */
  directoryKeys: string[];
  /** Adapter versions that no model and no import has any more. */
  digests: string[];
}
