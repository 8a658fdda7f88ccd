import type { KeyLimits } from './key-limits.ts';
import type { BestCheckpoint } from './run.ts';

// Records of the store. Ids are random UUIDs; times are milliseconds since the epoch; records are plain
// copies, not live.

export type Scope = 'inference' | 'training' | 'admin';

export interface Entity {
  id: string;
  name: string;
  createdAt: number;
}

/** An API key without its secret, of which only the SHA-256 is stored. */
export interface ApiKey {
  id: string;
  entityId: string;
  entity: string;
  name: string;
  scopes: Scope[];
  limits: KeyLimits;
  /** Start of the secret; null if the secret was chosen by an operator. */
  hint: string | null;
  /** True for the service's own first key, generated or configured. */
  isServiceKey: boolean;
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
  revokedAt: number | null;
}

/** Stand-in for a key in a browser: a session, or a link that starts one. */
export type SignInKind = 'session' | 'link';

/** A new session or link. Only the SHA-256 of its secret is stored. */
export interface SignIn {
  secret: string;
  expiresAt: number;
}

/** A signed-in browser, with the present rights of its key. */
export interface Session {
  key: ApiKey;
  /** The earlier of its own end and that of its key. */
  expiresAt: number;
}

/** Identity that a verified secret gives. */
export interface Caller {
  keyId: string;
  entityId: string;
  entity: string;
  scopes: Scope[];
  /** Null if nothing is limited. */
  limits: KeyLimits | null;
  /** Set while the database does not answer: the key is as last read. */
  isRemembered?: true;
}

/** Shape of a model's LoRA adapter, fixed at creation. */
export interface LoraShape {
  rank: number;
  alpha: number;
  targets: readonly string[];
  initSeed: number;
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
}

export interface ModelState {
  /** Null if all were deleted. */
  latest: Checkpoint | null;
  numCheckpoints: number;
  /** Latest mean reward of training rollouts, with the step they were sampled from; null before the first. */
  reward: { step: number; value: number } | null;
  best: BestCheckpoint | null;
  /** Unfinished jobs that train it. `queued` excludes paused ones. */
  jobs: { queued: number; running: number; paused: number };
}

export interface QueuedJob {
  job: TrainingJob;
  /** Training jobs before it, of all entities, without paused ones. */
  numAhead: number;
}

/** Source of a warm start. The directory may be gone with its last checkpoint; the key stays. */
export interface WarmStart {
  /** Origin of the weights, in words for clients, for example `entity/project/name:stepN`. */
  source: string;
  directoryKey: string | null;
}

export type Metrics = Record<string, number>;

export interface NamedStep {
  readonly digest: string;
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly step: number;
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

/** Kind of job that makes a checkpoint of a model from data. */
export type TrainingJobConfig = 'rl' | 'sft';
export type JobKind = TrainingJobConfig | 'export' | 'import';
export type JobStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';

export interface Lease {
  owner: string;
  /** Grows with each claim of the job; workers pass it with every write. */
  fencingToken: number;
  expiresAt: number;
}

/**
 * Weights that a job starts from, fixed at its first claim; for an export at its creation. `directoryKey`
 * null = a fresh adapter on the base model.
 */
export interface JobStart {
  step: number;
  directoryKey: string | null;
  digest: string | null;
}

/**
 * Request that made a job, for reports of its work; each field is null without a request, or if it did not
 * state it.
 */
export interface JobOrigin {
  /** Its `X-Request-Id`. */
  readonly requestId: string | null;
  /** Its span, as in the header `traceparent`. */
  readonly traceParent: string | null;
  /** Project that its usage counts for. */
  readonly project: string | null;
}

/** Progress of a job, in the blobs: the next worker to claim it continues from there, on any machine. */
export interface JobSnapshot {
  directoryKey: string;
  /** Number of gradient steps taken. Each was reported as an event before. */
  numGradientSteps: number;
}

interface AnyJob {
  id: string;
  entityId: string;
  status: JobStatus;
  /** Set while the job is paused: it stays queued, and neither it nor a later job of its turn is claimed. */
  pausedAt: number | null;
  /**
   * Jobs of one turn run one after the other: those that train one model, each export by itself, and the
   * imports of one adapter.
   */
  turn: string;
  /** Base model whose files it needs; claims filter by it. */
  baseModel: string;
  /** Submission order over all kinds. */
  position: number;
  /** Argument of `enqueueJob`. */
  config: Record<string, unknown>;
  keyId: string | null;
  origin: JobOrigin;
  /** Null unless running. */
  lease: Lease | null;
  /** Null before the first claim, and when the model had no checkpoint left then. */
  start: JobStart | null;
  /** Newest snapshot; its directory is removed at the end of the job. Only training jobs have one. */
  snapshot: JobSnapshot | null;
  /**
   * Claims that were not given back by `releaseLease` or a pause, since the last new gradient step. Above 1
   * the job has lost a worker.
   */
  numAttempts: number;
  /** Set when failed or cancelled. */
  errorMessage: string | null;
  createdAt: number;
  startedAt: number | null;
  finishedAt: number | null;
  /** Time when the training data were removed, after the end of the job; null while the blob exists. */
  dataRemovedAt: number | null;
}

export interface TrainingJob extends AnyJob {
  kind: TrainingJobConfig;
  modelId: string;
  dataKey: string;
}

/** Job with the `id` of its `ModelExport`; it reads its `start`. */
export interface ExportJob extends AnyJob {
  kind: 'export';
  modelId: string;
  dataKey: null;
}

/** Job that reads the upload of the adapter named by its `turn`. */
export interface ImportJob extends AnyJob {
  kind: 'import';
  modelId: null;
  dataKey: null;
}

export type Job = TrainingJob | ExportJob | ImportJob;
export type JobOfKind<Kind extends JobKind> = Kind extends TrainingJobConfig
  ? TrainingJob
  : Extract<Job, { kind: Kind }>;

export type ClaimedJob<Held extends Job = TrainingJob> = Held & {
  status: 'running';
  lease: Lease;
  /** Equal to `lease.fencingToken`. */
  fencingToken: number;
};

/**
 * Last event of a job, exactly one: `training_ended` or `training_failed`; `job_ended` or `job_failed` for
 * jobs that do not train.
 */
export type TerminalEventType = 'training_ended' | 'training_failed' | 'job_ended' | 'job_failed';
export type JobEventType = 'training_started' | 'gradient_step' | 'warning' | TerminalEventType | (string & {});

export interface JobEvent {
  id: string;
  jobId: string;
  /** 0-based, without gaps. */
  seq: number;
  type: JobEventType;
  /** Payload as clients read it (wire names), stored unchanged. */
  data: Record<string, unknown>;
  createdAt: number;
}

export type ExportStatus = 'queued' | 'running' | 'succeeded' | 'failed';

export interface ExportedFile {
  name: string;
  sizeBytes: number;
  /** hex */
  sha256: string;
}

/** Export of a checkpoint in a public format: the job of the same id, and its result. */
export interface ModelExport {
  id: string;
  modelId: string;
  entityId: string;
  step: number;
  format: string;
  /** Element type of merged weights. */
  dtype: string;
  status: ExportStatus;
  /**
   * Exported checkpoint directory, kept while the export is queued or running; null = the untouched base
   * model.
   */
  sourceDirectoryKey: string | null;
  sourceDigest: string | null;
  /** Directory with the files; null unless succeeded. */
  directoryKey: string | null;
  files: ExportedFile[];
  /** Results of the comparison with the trainer, as the exporter reported them; null unless succeeded. */
  parity: Record<string, unknown> | null;
  /** Set when failed. */
  errorMessage: string | null;
  createdAt: number;
  startedAt: number | null;
  finishedAt: number | null;
}

export interface Adapter {
  id: string;
  entityId: string;
  baseModel: string;
  /** Blobs of the uploaded files; null once it is committed. */
  upload: { configKey: string; weightsKey: string } | null;
  /** Shape and directory, laid out as that of a checkpoint; null until committed. */
  content: { lora: LoraShape; directoryKey: string; digest: string } | null;
  createdAt: number;
  committedAt: number | null;
}

export interface LogCounts {
  numGroups: number;
  numTrajectories: number;
  numExceptions: number;
}

/** One logged set of trajectories; the bodies are in the blob `blobKey`. */
export interface TrajectoryLog extends LogCounts {
  id: string;
  modelId: string;
  /** Step of the latest checkpoint at that time; null if there was none. */
  step: number | null;
  split: string;
  blobKey: string;
  metrics: Metrics;
  createdAt: number;
  /** Time when the trajectories were removed; null while the blob exists. */
  dataRemovedAt: number | null;
}

/** One version of a file of JSON lines uploaded by a client; its lines are in the blob `blobKey`. */
export interface Artifact {
  id: string;
  entityId: string;
  entity: string;
  project: string;
  name: string;
  /** 0-based; numbers are never reused. */
  version: number;
  fileName: string;
  blobKey: string;
  /** SHA-256 of the uploaded file, hex. */
  digest: string;
  /** Size of the uploaded file, bytes. */
  sizeBytes: number;
  numLines: number;
  createdAt: number;
}

export type UsageKind = 'chat' | 'completion' | 'training';

/** Tokens of one request, or (from `sumUsage`) of many. */
export interface Usage {
  keyId: string;
  entityId: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  promptTokens: number;
  completionTokens: number;
}

/** Dimensions to group usage by. A day starts at 00:00 UTC. */
export type UsagePart = 'project' | 'key' | 'model' | 'kind' | 'day';

/** Summed usage; dimensions not grouped by are absent. */
export interface UsageGroup {
  project?: string | null;
  keyId?: string;
  model?: string;
  kind?: UsageKind;
  /** Start of the day, milliseconds since the epoch. */
  day?: number;
  numRequests: number;
  promptTokens: number;
  completionTokens: number;
}

export interface UsageTotal {
  entityId: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  numRequests: number;
  promptTokens: number;
  completionTokens: number;
}
