import type { OrderedPageQuery, Page, PageQuery } from '../../contract/page.ts';
import type { Checkpoint } from '../checkpoints/checkpoints.ts';
import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { Metrics } from '../runs/runs.ts';
import type { GroupContents, GroupRewards, NewTokenTrace, TrajectoryOutcome } from '../trajectories/trajectories.ts';

/**
 * Jobs of all kinds in one queue, their leases and their events. Workers pass the fencing token with every write.
 */
export interface Jobs {
  /** Enqueues a training job. Null if the model is unknown. @throws {StoreError} `store.queue_full`, `store.model_archived` */
  enqueue(input: NewJob): Promise<TrainingJob | null>;
  get(jobId: string): Promise<Job | null>;
  /** Training jobs in order of submission; includes jobs of deleted models. */
  list(query: OrderedPageQuery & JobFilter): Promise<Page<TrainingJob>>;
  /** Unfinished training jobs in order of submission; of one entity, or of all. */
  listQueue(query: { entityId?: string; limit: number }): Promise<QueuedJob[]>;
  /**
   * Claims the first job of these kinds in submission order that is queued and not paused, or running under
   * an expired lease, and whose turn has no earlier live job (a paused job is live). Sets the `start` of a
   * training job at the first claim. Null if there is no such job.
   *
   * @param kinds default: training jobs
   * @param baseModels only jobs that need the files of one of these; default: any base model
   */
  claim<Kind extends JobKind = TrainingJobConfig>(
    workerId: string,
    leaseMs: number,
    kinds?: readonly Kind[],
    baseModels?: readonly string[],
  ): Promise<ClaimedJob<JobOfKind<Kind>> | null>;
  /**
   * Heartbeat: extends the lease to `leaseMs` from `now`, default the time of the write. @throws {StoreError}
   * `store.lease_lost`
   */
  renew(jobId: string, fencingToken: number, leaseMs: number, now?: number): Promise<void>;
  /**
   * Requeues the job in its old place without counting the attempt (graceful shutdown). @throws {StoreError}
   * `store.lease_lost`
   */
  release(jobId: string, fencingToken: number): Promise<void>;
  /**
   * Appends a progress event. If the job has used its `dedupeKey` already, writes nothing and returns the
   * first event. Refuses terminal types (asserted), which belong to `succeed` and `fail`. A new `gradient_step`
   * resets the count of attempts.
   * @throws {StoreError} `store.lease_lost`
   */
  appendEvent(jobId: string, fencingToken: number, event: NewEvent): Promise<{ event: JobEvent; isDuplicate: boolean }>;
  /**
   * Writes in one transaction: the checkpoint at the model's next step, `training_ended`, the status. @throws
   * {StoreError} `store.lease_lost`
   */
  succeed(jobId: string, fencingToken: number, outcome: JobOutcome): Promise<FinishedJob & { checkpoint: Checkpoint }>;
  /**
   * Writes in one transaction, for any kind of job: the terminal event with `error_message` and `data`, the
   * status.
   * @param data any JSON object, default empty
   * @throws {StoreError} `store.lease_lost`
   */
  fail(jobId: string, fencingToken: number, errorMessage: string, data?: object): Promise<FinishedJob>;
  /**
   * Queues a job with the data and settings of one that failed or was cancelled; its rollouts are listed again.
   * Null if it is unknown or its model is deleted.
   * @throws {StoreError} `store.queue_full`, `store.model_archived`
   */
  retry(jobId: string, input: RetriedJob): Promise<RetryJobResult | null>;
  /** Ends a queued or running job as failed; its worker loses the lease. Null if unknown. */
  cancel(jobId: string, reason: string, completes?: CompletesWith<CancelJobResult>): Promise<CancelJobResult | null>;
  /**
   * Pauses a queued or running job. Its worker loses the lease, the attempt does not count, and the job keeps
   * its place. Null if unknown.
   */
  pause(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null>;
  /** Makes a paused job claimable again. Null if unknown. */
  resume(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null>;
  /**
   * Keeps the weights of a step of the job's own model until the job ends, even if the step is deleted.
   * @returns the reference that the job already keeps, if any; else the checkpoint of `step`; null if that
   *   does not exist
   * @throws {StoreError} `store.lease_lost`
   */
  keepReference(jobId: string, fencingToken: number, step: number): Promise<{ directoryKey: string | null } | null>;
  /**
   * Sets the directory, already in the blobs, as the newest snapshot of the job, until the job ends.
   * @param snapshot its key starts with `snapshotsOf(jobId)` (asserted), and was announced
   * @returns the replaced directory, and others of the job that were announced but never named, for the
   *   caller to remove
   * @throws {StoreError} `store.lease_lost`
   */
  keepSnapshot(jobId: string, fencingToken: number, snapshot: JobSnapshot): Promise<{ replacedKeys: string[] }>;
  countEvents(jobId: string, type: JobEventType): Promise<number>;
  /** Events, oldest first, of one type if given. Null if the job is unknown. */
  listEvents(query: PageQuery & { jobId: string; type?: JobEventType }): Promise<Page<JobEvent> | null>;
}

/** Kind of job that makes a checkpoint of a model from data. */
export type TrainingJobConfig = 'rl' | 'sft';

export type JobKind = TrainingJobConfig | 'export' | 'import' | 'pull';

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
   * Jobs of one turn run one after the other: those that train one model, each export by itself, the imports of
   * one adapter, and the pulls of one base model.
   */
  turn: string;
  /** Base model whose files it needs; claims filter by it. */
  baseModel: string;
  /** Submission order over all kinds. */
  position: number;
  /** Argument of `enqueue`. */
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
   * Claims that were not given back by `release` or a pause, since the last new gradient step. Above 1
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

/** Job that downloads its `baseModel` from a hub. */
export interface PullJob extends AnyJob {
  kind: 'pull';
  modelId: null;
  dataKey: null;
}

export type Job = TrainingJob | ExportJob | ImportJob | PullJob;

export type JobOfKind<Kind extends JobKind> = Kind extends TrainingJobConfig
  ? TrainingJob
  : Extract<Job, { kind: Kind }>;

export type ClaimedJob<Held extends Job = TrainingJob> = Held & {
  status: 'running';
  lease: Lease;
  /** Equal to `lease.fencingToken`. */
  fencingToken: number;
};

/** Unfinished jobs that train a model. `queued` excludes paused ones. */
export interface LiveJobCounts {
  queued: number;
  running: number;
  paused: number;
}

export interface QueuedJob {
  job: TrainingJob;
  /** Training jobs before it, of all entities, without paused ones. */
  numAhead: number;
}

/**
 * Last event of a job, exactly one: `training_ended` or `training_failed`; `job_ended` or `job_failed` for
 * jobs that do not train.
 */
export type TerminalEventType = 'training_ended' | 'training_failed' | 'job_ended' | 'job_failed';

export type JobEventType =
  | 'training_started'
  | 'gradient_step'
  | 'held_out'
  | 'warning'
  | TerminalEventType
  | (string & {});

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

export interface NewJob {
  modelId: string;
  kind: TrainingJobConfig;
  /** Any JSON object. */
  config: object;
  dataKey: string;
  keyId?: string | null;
  /** Default: no known request. */
  origin?: JobOrigin;
  /** Maximum number of jobs that train the model or wait for it, this one included; default: unlimited. */
  maxLive?: number;
  /** Rewards of the trajectories that it learns from; default: none to list. */
  rewards?: GroupRewards;
  /** Contents of the same trajectories; default: computed later from the blob. */
  contents?: GroupContents;
  /** Step whose weights are kept until the job ends, as by `keepReference`, if the model has it already. */
  referenceStep?: number | null;
  /** Default: a random UUID. Set it to know the answer before the job exists. */
  id?: string;
  /** Written in the same transaction: a repeat of the request never creates a second job. */
  completes?: IdempotentAnswer;
}

/** Filters of jobs; an omitted one passes all. */
/** A training job that has ended. */
export interface EndedJob {
  id: string;
  status: 'succeeded' | 'failed' | 'cancelled';
  /** Null after success. */
  errorMessage: string | null;
  finishedAt: number;
}

/** A new job with the data, kind and settings of one that failed or was cancelled. */
export type RetriedJob = Pick<NewJob, 'keyId' | 'origin' | 'maxLive' | 'referenceStep' | 'id' | 'completes'>;

/** `live`, `succeeded`: the job has no failure to repeat. `data_removed`: its data are gone. */
export type RetryJobResult =
  | { kind: 'queued'; job: TrainingJob }
  | { kind: 'live' | 'succeeded' | 'data_removed'; job: TrainingJob };

export interface JobFilter {
  modelId?: string;
  entityId?: string;
  project?: string;
  status?: JobStatus;
  kind?: TrainingJobConfig;
}

export interface NewEvent {
  type: JobEventType;
  /** Any JSON object. */
  data: object;
  /** Key of the event, such as `gradient_step:3`; absent = never a duplicate. */
  dedupeKey?: string;
  /**
   * Points of the model's run by full name, written in the same transaction: a duplicate adds none. Only for
   * `gradient_step` and `held_out` (asserted); those of `held_out` are placed after the gradient steps so far.
   */
  metrics?: Metrics;
  /**
   * Metrics of the job's rollouts by full name, placed at the step that the job starts from. Otherwise as
   * `metrics`.
   */
  rolloutMetrics?: Metrics;
  /** Outcome of each submitted trajectory, by group; written once, as `metrics`. */
  outcomes?: readonly (readonly TrajectoryOutcome[])[];
  /** Tokens charged to the job's key, written once, as `metrics`; no effect for a job without a key. */
  usage?: NewStepUsage;
  /** Tokens of that gradient step; written once, as `metrics`. */
  traces?: { gradientStep: number; traces: readonly NewTokenTrace[]; maxBytes: number };
}

export interface NewStepUsage {
  /** 1 for the first step of a job, 0 for the others: a job is one request. */
  readonly numRequests: 0 | 1;
  /** Context tokens before the trained ones. */
  readonly promptTokens: number;
  /** Trained tokens. */
  readonly completionTokens: number;
}

export interface JobOutcome {
  /**
   * Directory key of the new checkpoint, committed before; null = nothing was trained and the artifact of the
   * start is shared.
   */
  directoryKey: string | null;
  /** SHA-256 of the weights; ignored if `directoryKey` is null. */
  digest: string | null;
  metrics: Metrics;
  /** Metrics of the job's rollouts, placed as those of events; only for a job without gradient steps. */
  rolloutMetrics?: Metrics;
  /**
   * Data of the `training_ended` event in addition to `step`, that of the checkpoint; any JSON object,
   * default empty.
   */
  data?: object;
}

export interface FinishedJob {
  job: Job;
  /**
   * Directories that are no longer referenced: its snapshot, and a start whose checkpoint was deleted during
   * the job.
   */
  directoryKeys: string[];
}

/** `finished`: it had ended before; nothing changed. */
export type CancelJobResult = ({ kind: 'cancelled' } & FinishedJob) | { kind: 'finished'; job: Job };

/**
 * `done`: the job is in the requested state, possibly from before. `finished`: it had ended; nothing changed.
 */
export type JobControlResult = { kind: 'done' | 'finished'; job: Job };
