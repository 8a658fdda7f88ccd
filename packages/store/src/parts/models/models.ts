import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { Checkpoint, LoraShape } from '../checkpoints/checkpoints.ts';
import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { EndedJob, LiveJobCounts } from '../jobs/jobs.ts';
import type { BestCheckpoint, Metrics } from '../runs/runs.ts';

/** Models by identity. */
export interface Models {
  /**
   * Creates the model and its checkpoint of step 0, with the weights of `init` if given. Identity is (entity,
   * project, name).
   */
  create(input: NewModel): Promise<CreateModelResult>;
  get(modelId: string): Promise<Model | null>;
  /** @param entity name of the entity, not its id */
  find(entity: string, project: string, name: string): Promise<Model | null>;
  /** Finds a model only by name, over all projects of the entity (given by name). */
  findByName(entity: string, name: string): Promise<FindModelResult>;
  /** Models in order of creation. */
  list(query: OrderedPageQuery & ModelFilter): Promise<Page<Model>>;
  /** States by model, in a few statements for all of them; leaves out unknown models. */
  getStates(modelIds: readonly string[]): Promise<ReadonlyMap<string, ModelState>>;
  /** Changes tags, notes and archive in one transaction, all or nothing. Null if unknown. */
  label(modelId: string, change: LabelChange): Promise<LabelResult | null>;
  /**
   * Cancels the model's live jobs, each with a `training_failed` event, then deletes it and its checkpoints.
   * From then on it is unknown everywhere, with its run and trajectories; their rows are removed in short
   * transactions after that one, the last before this resolves. Its jobs and events stay readable until
   * `purgeExpired`. Null if unknown.
   */
  delete(modelId: string, completes?: CompletesWith<DeleteModelResult>): Promise<DeleteModelResult | null>;
  /** Creates rows for a checkpoint that is in the blobs but not in this database. */
  adopt(checkpoint: AdoptedCheckpoint): Promise<AdoptResult>;
}

export interface Model {
  id: string;
  entityId: string;
  entity: string;
  project: string;
  name: string;
  baseModel: string;
  lora: LoraShape;
  /** Name of its run in this store; derived from its id. */
  runId: string;
  /** Weights that its step 0 started from; null = the untouched base model. */
  warmStart: WarmStart | null;
  /** Step of the next checkpoint. Only grows: step numbers are never reused. */
  nextStep: number;
  /** Gradient steps taken over all its jobs, failed ones included. */
  numGradientSteps: number;
  createdAt: number;
  /** Free text; empty by default. */
  notes: string;
  /** Archived models are in no list, and take no training jobs; null: not archived. */
  archivedAt: number | null;
}

/** An omitted filter passes all. */
export interface ModelFilter {
  entityId?: string;
  project?: string;
  /** Models that have all of these. */
  tags?: readonly string[];
  /** Default `included`. */
  archived?: 'excluded' | 'only' | 'included';
}

/** Omitted parts stay as they are. */
export interface LabelChange {
  addTags?: readonly string[];
  /** Missing ones are no error. */
  removeTags?: readonly string[];
  notes?: string;
  isArchived?: boolean;
  /** Maximum number of tags afterwards; default: unlimited. */
  maxTags?: number;
}

/** `live_jobs`: a model that trains cannot be archived. Nothing is changed unless `labelled`. */
export type LabelResult =
  | { kind: 'labelled'; model: Model }
  | { kind: 'live_jobs'; numJobs: number }
  | { kind: 'too_many_tags'; numTags: number };

export interface ModelState {
  /** Null if all were deleted. */
  latest: Checkpoint | null;
  numCheckpoints: number;
  /** Latest mean reward of training rollouts, with the step they were sampled from; null before the first. */
  reward: { step: number; value: number } | null;
  best: BestCheckpoint | null;
  jobs: LiveJobCounts;
  /** The training job that ended last; null before the first. */
  lastJob: EndedJob | null;
  tags: readonly string[];
}

/** Source of a warm start. The directory may be gone with its last checkpoint; the key stays. */
export interface WarmStart {
  /** Origin of the weights, in words for clients, for example `entity/project/name:stepN`. */
  source: string;
  directoryKey: string | null;
}

export interface NewModel {
  entityId: string;
  project: string;
  name: string;
  baseModel: string;
  lora: LoraShape;
  /** Weights of step 0; default: those of the base model. */
  warmStart?: NewWarmStart;
  /** Default: none. */
  tags?: readonly string[];
  /** Default: empty. */
  notes?: string;
  /** Default: a random UUID. */
  id?: string;
  /** Written in the same transaction when the model is made. */
  completes?: IdempotentAnswer;
}

/** A checkpoint of a model in this store, or a directory committed for this purpose that no row names yet. */
export type NewWarmStart = { source: string } & (
  | { kind: 'checkpoint'; modelId: string; step: number }
  | { kind: 'directory'; directoryKey: string; digest: string }
);

/**
 * Result of `create`. `exists` carries the stored model, with any base model. `warm_start_missing`: the
 * checkpoint to start from is gone.
 */
export type CreateModelResult =
  | { kind: 'created'; model: Model }
  | { kind: 'exists'; model: Model }
  | { kind: 'warm_start_missing' };

export type FindModelResult =
  | { kind: 'found'; model: Model }
  | { kind: 'none' }
  | { kind: 'ambiguous'; models: Model[] };

export interface DeleteModelResult {
  deletedCheckpoints: number;
  /** True if its metrics were deleted with it. */
  deletedRun: boolean;
  /** Directories that are no longer referenced. */
  directoryKeys: string[];
  /** Adapter versions that no model and no import has any more. */
  digests: string[];
  /** Training data and trajectory logs of the model. */
  blobKeys: string[];
  cancelledJobIds: string[];
}

/** A checkpoint as described in its folder, with its model. */
export interface AdoptedCheckpoint {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly modelId: string;
  readonly baseModel: string;
  readonly lora: LoraShape;
  /** Weights that the model started from, without a digest if they are gone; null: the base model. */
  readonly warmStart: { readonly source: string; readonly directoryKey: string; readonly digest: string | null } | null;
  readonly step: number;
  readonly directoryKey: string;
  readonly digest: string;
  readonly metrics: Metrics;
  /** Points of the step before, from which its rollouts were sampled. */
  readonly rolloutMetrics: Metrics;
  readonly createdAt: number;
}

/** `taken`: the model has, or had, that step; null: the model was deleted. */
export type AdoptResult =
  | { readonly kind: 'adopted'; readonly model: Model }
  | { readonly kind: 'taken'; readonly model: Model | null };
