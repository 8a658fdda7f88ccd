import type { KeyLimits } from './key-limits.ts';
import type { BestCheckpoint } from './run.ts';

// What the store remembers. Ids are random UUIDs; times are milliseconds since the epoch; records are plain copies, not live.

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
  /** Name of the entity. */
  entity: string;
  name: string;
  scopes: Scope[];
  limits: KeyLimits;
  /** How the secret begins; null for one that somebody chose. */
  hint: string | null;
  /** Whether it is the service's own first key, made up or configured. */
  isServiceKey: boolean;
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
  revokedAt: number | null;
}

/** In a browser something stands for a key: a session, or a link that begins one. */
export type SignInKind = 'session' | 'link';

/** A session or link as it is made; of its secret only the SHA-256 is stored. */
export interface SignIn {
  secret: string;
  expiresAt: number;
}

/** A browser that is signed in, with the rights that its key has now. */
export interface Session {
  key: ApiKey;
  /** Its own end, or that of its key. */
  expiresAt: number;
}

/** Who a verified secret speaks for. */
export interface Caller {
  keyId: string;
  entityId: string;
  /** Name of the entity. */
  entity: string;
  scopes: Scope[];
  /** Null: nothing is limited. */
  limits: KeyLimits | null;
  /** The database does not answer: the key is as it was read last. Absent while it answers. */
  isRemembered?: true;
}

/** Shape of a model's LoRA adapter, fixed at creation. */
export interface LoraShape {
  rank: number;
  alpha: number;
  /** Names of the adapted linear layers. */
  targets: readonly string[];
  initSeed: number;
}

export interface Model {
  id: string;
  entityId: string;
  /** Name of the entity. */
  entity: string;
  project: string;
  name: string;
  baseModel: string;
  lora: LoraShape;
  /** Names its run in this store; that of its id. */
  runId: string;
  /** The weights its step 0 began with; null = the untouched base model. */
  warmStart: WarmStart | null;
  /** Step of the next checkpoint. Only grows: a step number is never used twice. */
  nextStep: number;
  /** Gradient steps that it has taken, over all its jobs, those of jobs that failed included. */
  numGradientSteps: number;
  createdAt: number;
}

/** How a model is. */
export interface ModelState {
  /** Null when all were deleted. */
  latest: Checkpoint | null;
  numCheckpoints: number;
  /** The latest mean reward of training rollouts, with the step that these were drawn from; null before the first. */
  reward: { step: number; value: number } | null;
  best: BestCheckpoint | null;
  /** Jobs that train it and have not ended. A paused one is not queued here. */
  jobs: { queued: number; running: number; paused: number };
}

/** A training job that has not ended, in its place. */
export interface QueuedJob {
  job: TrainingJob;
  /** Training jobs before it, of all entities, paused ones not counted. */
  numAhead: number;
}

/** The source of a warm start. The directory may be gone with its last checkpoint; the key stays. */
export interface WarmStart {
  /** Where the weights came from, in words that a client reads: `entity/project/name:stepN`, say. */
  source: string;
  directoryKey: string | null;
}

export type Metrics = Record<string, number>;

/** A kept step of a model by the digest of its weights. */
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

/** Makes a checkpoint of a model from data. */
export type TrainingJobConfig = 'rl' | 'sft';
export type JobKind = TrainingJobConfig | 'export' | 'import';
export type JobStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';

export interface Lease {
  owner: string;
  /** Grows with each claim of the job; every write of a worker names it. */
  fencingToken: number;
  expiresAt: number;
}

/** The weights a job starts from, fixed at its first claim; of an export when it is made. `directoryKey` null = a fresh adapter on the base model. */
export interface JobStart {
  step: number;
  directoryKey: string | null;
  digest: string | null;
}

/** The request that made a job, as whoever works on the job tells of it; null: there was none, or it did not say. */
export interface JobOrigin {
  /** Its `X-Request-Id`. */
  readonly requestId: string | null;
  /** Its span, in the form of the header `traceparent`. */
  readonly traceParent: string | null;
  /** The project that its usage is attributed to. */
  readonly project: string | null;
}

/** A job as far as it has got, in the blobs: whoever claims it next goes on from there, on whatever machine. */
export interface JobSnapshot {
  directoryKey: string;
  /** Gradient steps behind it; each of them was told as an event before. */
  numGradientSteps: number;
}

interface AnyJob {
  id: string;
  entityId: string;
  status: JobStatus;
  /** Set while the job is paused: it is queued, and neither it nor a later job of its turn is claimed. */
  pausedAt: number | null;
  /** Jobs of one turn run one after the other: those that train a model, and by itself each export and whatever imports one adapter. */
  turn: string;
  /** The base model that it needs the files of; claims go by it. */
  baseModel: string;
  /** Submission order over all kinds. */
  position: number;
  /** As given to `enqueueJob`. */
  config: Record<string, unknown>;
  /** API key that submitted the job. */
  keyId: string | null;
  origin: JobOrigin;
  /** Null unless running. */
  lease: Lease | null;
  /** Null before the first claim, and when the model had no checkpoint left then. */
  start: JobStart | null;
  /** The newest that was kept; its directory goes with the end of the job. Only training has them. */
  snapshot: JobSnapshot | null;
  /** Claims that were not given back by `releaseLease` or a pause, since the last new gradient step; above 1 the job has lost a worker. */
  numAttempts: number;
  /** Set when failed or cancelled. */
  errorMessage: string | null;
  createdAt: number;
  startedAt: number | null;
  finishedAt: number | null;
  /** When the training data went, long after the job had ended; null while the blob is there. */
  dataRemovedAt: number | null;
}

export interface TrainingJob extends AnyJob {
  kind: TrainingJobConfig;
  modelId: string;
  /** Blob key of the training data. */
  dataKey: string;
}

/** Its `id` is that of the `ModelExport`; what it reads is its `start`. */
export interface ExportJob extends AnyJob {
  kind: 'export';
  modelId: string;
  dataKey: null;
}

/** It reads the upload of the adapter that its `turn` names. */
export interface ImportJob extends AnyJob {
  kind: 'import';
  modelId: null;
  dataKey: null;
}

export type Job = TrainingJob | ExportJob | ImportJob;
export type JobOfKind<Kind extends JobKind> = Kind extends TrainingJobConfig
  ? TrainingJob
  : Extract<Job, { kind: Kind }>;

/** A job that this worker holds. */
export type ClaimedJob<Held extends Job = TrainingJob> = Held & {
  status: 'running';
  lease: Lease;
  /** The same number as `lease.fencingToken`. */
  fencingToken: number;
};

/** `training_ended` and `training_failed` are terminal: one of them, once, last; of jobs that train nothing `job_ended` and `job_failed` are. */
export type TerminalEventType = 'training_ended' | 'training_failed' | 'job_ended' | 'job_failed';
export type JobEventType = 'training_started' | 'gradient_step' | 'warning' | TerminalEventType | (string & {});

export interface JobEvent {
  id: string;
  jobId: string;
  /** 0-based, without gaps. */
  seq: number;
  type: JobEventType;
  /** The payload exactly as clients read it (wire names), stored as is. */
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

/** A checkpoint on its way out, in a public format: the job of the same id, and what comes of it. */
export interface ModelExport {
  id: string;
  modelId: string;
  entityId: string;
  step: number;
  format: string;
  /** Element type of merged weights. */
  dtype: string;
  status: ExportStatus;
  /** Checkpoint directory that is exported, kept while the export is queued or running; null = the untouched base model. */
  sourceDirectoryKey: string | null;
  sourceDigest: string | null;
  /** Directory with the files; null unless succeeded. */
  directoryKey: string | null;
  files: ExportedFile[];
  /** Numbers of the comparison with the trainer, as the exporter reported them; null unless succeeded. */
  parity: Record<string, unknown> | null;
  /** Set when failed. */
  errorMessage: string | null;
  createdAt: number;
  startedAt: number | null;
  finishedAt: number | null;
}

/** An adapter that came from elsewhere. */
export interface Adapter {
  id: string;
  entityId: string;
  baseModel: string;
  /** Blobs of the uploaded files; null once it is committed. */
  upload: { configKey: string; weightsKey: string } | null;
  /** Its shape and directory, which is laid out as that of a checkpoint; null before it is committed. */
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
  /** Step of the checkpoint that was the latest then; null when there was none. */
  step: number | null;
  split: string;
  blobKey: string;
  metrics: Metrics;
  createdAt: number;
  /** When the trajectories went; null while the blob is there. */
  dataRemovedAt: number | null;
}

/** One version of a file of JSON lines that a client uploaded; its lines are in the blob `blobKey`. */
export interface Artifact {
  id: string;
  entityId: string;
  /** Name of the entity. */
  entity: string;
  project: string;
  name: string;
  /** 0-based; a number is never used twice. */
  version: number;
  fileName: string;
  blobKey: string;
  /** SHA-256 of the file as it was sent, hex. */
  digest: string;
  /** Size of the file as it was sent. */
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

/** Parts that usage can be told apart by. A day begins at 0 o'clock UTC. */
export type UsagePart = 'project' | 'key' | 'model' | 'kind' | 'day';

/** Usage added up; parts that it was not asked by are absent. */
export interface UsageGroup {
  project?: string | null;
  keyId?: string;
  model?: string;
  kind?: UsageKind;
  /** Milliseconds at which the day began. */
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
