import type { CheckpointRetention, MarkedCheckpoints } from './checkpoint-retention.ts';
import type { ChoiceRecord, NewChoiceRecord } from './choice-record.ts';
import type { Conversations } from './conversation.ts';
import type { CompletesWith, IdempotentAnswer } from './idempotent-answer.ts';
import type { KeptAnswers } from './kept-answer.ts';
import type { KeyAnswer, KeyLimits, KeySpending } from './key-limits.ts';
import type { Member, MemberFacts, MemberRole, NewMember } from './member.ts';
import type { OrderedPageQuery, Page, PageQuery } from './page.ts';
import type {
  Adapter,
  ApiKey,
  Artifact,
  Caller,
  Checkpoint,
  ClaimedJob,
  Entity,
  ExportedFile,
  Job,
  JobEvent,
  ImportJob,
  JobEventType,
  JobKind,
  JobOrigin,
  JobOfKind,
  JobSnapshot,
  JobStatus,
  LogCounts,
  LoraShape,
  Metrics,
  Model,
  ModelExport,
  ModelState,
  NamedStep,
  QueuedJob,
  Scope,
  Session,
  SignIn,
  TrainingJob,
  TrainingJobConfig,
  TrajectoryLog,
  Usage,
  UsageGroup,
  UsagePart,
  UsageTotal,
} from './records.ts';
import type {
  BestCheckpoint,
  FeedItem,
  FeedQuery,
  MetricSeries,
  Series,
  SeriesQuery,
  TrackedRunRecord,
} from './run.ts';
import type {
  GroupPrompts,
  GroupRewards,
  NewTokenTrace,
  TokenTrace,
  TrajectoryOutcome,
  TrajectoryQuery,
  TrajectoryRecord,
  TrajectorySummary,
} from './trajectory.ts';

/**
 * Durable state. Every write is one transaction: when the promise resolves it is on disk; when it rejects,
 * nothing of it is (after `store.unavailable`, an I/O error, it may be: check with `isNamed`). While another
 * process holds the database, a call waits without blocking this thread, and rejects with `store.busy` after
 * too long.
 *
 * Unknown and deleted ids give null (or an empty page), so that a caller cannot distinguish them. Expected
 * conflicts are tagged results; everything else is a `StoreError`. Metrics must be finite numbers (asserted).
 */
export interface Store extends CheckpointRetention {
  /**
   * Name of this process among all that share the store, and of its successors on the same data folder: the
   * next takes up the work that one left.
   */
  readonly instanceId: string;

  // entities and keys
  /** Returns the entity of that name; creates it if absent. */
  ensureEntity(name: string): Promise<Entity>;
  /** Creates a key with the secret of the input, or a random one of 256 bits. Only this call returns it. */
  createKey(input: NewKey & { completes?: CompletesWith<ApiKey> }): Promise<ApiKey & { secret: string }>;
  /**
   * Ensures a key with this operator-chosen secret (e.g. from the environment): creates it if absent, else
   * updates its owner, name, scopes and end and makes it valid again. As the service's key it replaces the
   * previous one, which is revoked in the same transaction.
   */
  ensureKey(input: NewKey & { secret: string }): Promise<ApiKey & { numReplaced: number }>;
  /** Returns null if the secret is unknown, revoked or expired. */
  verifyKey(secret: string): Promise<Caller | null>;
  /** Keys, oldest first, revoked ones included; of one entity, or of all. */
  listKeys(entityId?: string): Promise<ApiKey[]>;
  /** Returns the key in any state. Null if unknown. */
  getKey(keyId: string): Promise<ApiKey | null>;
  /** Sets limits from the key's next request on; omitted limits stay. Null if unknown. */
  setKeyLimits(keyId: string, limits: Partial<KeyLimits>): Promise<ApiKey | null>;
  /** Revokes a key and ends its sessions and links. False if unknown or already revoked. */
  revokeKey(keyId: string): Promise<boolean>;

  // limits of keys
  /**
   * Reports this process's use of limited keys and decides which requests may start: one transaction on the
   * clock of the store, which does not wait for the disk. Places in flight belong to this process for 15 s.
   * @returns answers in the order of the spendings
   */
  spendKeyLimits(spendings: readonly KeySpending[]): Promise<KeyAnswer[]>;

  // signed-in browsers
  /**
   * Signs a browser in for 30 days with a secret of 256 random bits, which only this call returns. Keeps the
   * newest 100 per key.
   */
  openSession(keyId: string): Promise<SignIn>;
  /** Returns null if it is unknown or has ended, or its key is no longer valid. */
  findSession(secret: string): Promise<Session | null>;
  closeSession(secret: string): Promise<void>;
  /** Creates a link that works once, within 15 minutes; otherwise as `openSession`. */
  createSignInLink(keyId: string): Promise<SignIn>;
  /** Uses up a link. @returns the id of its key; null if it was used, has expired or never existed */
  redeemSignInLink(secret: string): Promise<string | null>;

  // models
  /**
   * Creates the model and its checkpoint of step 0, with the weights of `init` if given. Identity is (entity,
   * project, name).
   */
  createModel(input: NewModel): Promise<CreateModelResult>;
  getModel(modelId: string): Promise<Model | null>;
  /** @param entity name of the entity, not its id */
  findModel(entity: string, project: string, name: string): Promise<Model | null>;
  /** Finds a model only by name, over all projects of the entity (given by name). */
  findModelByName(entity: string, name: string): Promise<FindModelResult>;
  /** Models in order of creation. */
  listModels(query: OrderedPageQuery & { entityId?: string; project?: string }): Promise<Page<Model>>;
  /** States by model, in a few statements for all of them; leaves out unknown models. */
  getModelStates(modelIds: readonly string[]): Promise<ReadonlyMap<string, ModelState>>;
  /**
   * Cancels the model's live jobs, each with a `training_failed` event, then deletes it and its checkpoints.
   * From then on it is unknown everywhere, with its run and trajectories; their rows are removed in short
   * transactions after that one, the last before this resolves. Its jobs and events stay readable until
   * `purgeExpired`. Null if unknown.
   */
  deleteModel(modelId: string, completes?: CompletesWith<DeleteModelResult>): Promise<DeleteModelResult | null>;

  // checkpoints
  /** Checkpoints by step; includes step 0 (no artifact). */
  listCheckpoints(query: OrderedPageQuery & { modelId: string }): Promise<Page<Checkpoint>>;
  getCheckpoint(modelId: string, step: number): Promise<Checkpoint | null>;
  /** Returns the checkpoint with the highest step; null if all were deleted. */
  latestCheckpoint(modelId: string): Promise<Checkpoint | null>;
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
  deleteCheckpoints(
    modelId: string,
    steps: readonly number[],
    completes?: CompletesWith<DeleteCheckpointsResult>,
  ): Promise<DeleteCheckpointsResult>;
  /** Adds or replaces these metrics, keeping the others. Null if there is no such checkpoint. */
  mergeCheckpointMetrics(modelId: string, step: number, metrics: Metrics): Promise<Checkpoint | null>;

  /**
   * Marks live and removed steps, or removes the marks. The policy never removes a marked step. A removed
   * step that is marked is live again: its files must be restored before.
   */
  markCheckpoints(
    modelId: string,
    steps: readonly number[],
    isKept: boolean,
    completes?: CompletesWith<MarkedCheckpoints>,
  ): Promise<MarkedCheckpoints>;

  // jobs
  /** Enqueues a training job. Null if the model is unknown. @throws {StoreError} `store.queue_full` */
  enqueueJob(input: NewJob): Promise<TrainingJob | null>;
  getJob(jobId: string): Promise<Job | null>;
  /** Training jobs in order of submission; includes jobs of deleted models. */
  listJobs(query: OrderedPageQuery & JobFilter): Promise<Page<TrainingJob>>;
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
  claimNextJob<Kind extends JobKind = TrainingJobConfig>(
    workerId: string,
    leaseMs: number,
    kinds?: readonly Kind[],
    baseModels?: readonly string[],
  ): Promise<ClaimedJob<JobOfKind<Kind>> | null>;
  /**
   * Heartbeat: extends the lease to `leaseMs` from `now`, default the time of the write. @throws {StoreError}
   * `store.lease_lost`
   */
  renewLease(jobId: string, fencingToken: number, leaseMs: number, now?: number): Promise<void>;
  /**
   * Requeues the job in its old place without counting the attempt (graceful shutdown). @throws {StoreError}
   * `store.lease_lost`
   */
  releaseLease(jobId: string, fencingToken: number): Promise<void>;
  /**
   * Appends a progress event. If the job has used its `dedupeKey` already, writes nothing and returns the
   * first event. Refuses terminal types (asserted), which belong to the finish methods. A new `gradient_step`
   * resets the count of attempts.
   * @throws {StoreError} `store.lease_lost`
   */
  appendEvent(jobId: string, fencingToken: number, event: NewEvent): Promise<{ event: JobEvent; isDuplicate: boolean }>;
  /**
   * Writes in one transaction: the checkpoint at the model's next step, `training_ended`, the status. @throws
   * {StoreError} `store.lease_lost`
   */
  finishJobSucceeded(
    jobId: string,
    fencingToken: number,
    outcome: JobOutcome,
  ): Promise<FinishedJob & { checkpoint: Checkpoint }>;
  /**
   * Writes in one transaction, for any kind of job: the terminal event with `error_message` and `data`, the
   * status.
   * @param data any JSON object, default empty
   * @throws {StoreError} `store.lease_lost`
   */
  finishJobFailed(jobId: string, fencingToken: number, errorMessage: string, data?: object): Promise<FinishedJob>;
  /** Ends a queued or running job as failed; its worker loses the lease. Null if unknown. */
  cancelJob(jobId: string, reason: string, completes?: CompletesWith<CancelJobResult>): Promise<CancelJobResult | null>;
  /**
   * Pauses a queued or running job. Its worker loses the lease, the attempt does not count, and the job keeps
   * its place. Null if unknown.
   */
  pauseJob(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null>;
  /** Makes a paused job claimable again. Null if unknown. */
  resumeJob(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null>;
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

  // runs
  /** Series by name; empty for an unknown model. */
  listSeries(modelId: string): Promise<MetricSeries[]>;
  /** Series in the order of the names, each reduced to at most the requested number of points. */
  readSeries(query: SeriesQuery): Promise<Series[]>;
  /** Best kept checkpoint by {@link BEST_BY}; null for an unknown model, or if no checkpoint has a value. */
  bestCheckpoint(modelId: string): Promise<BestCheckpoint | null>;
  /** All events, oldest first; kept for a week. */
  listFeed(query: FeedQuery): Promise<FeedItem[]>;
  /** Position of the newest item of all entities; 0 before the first. */
  lastFeedPosition(): Promise<number>;

  // external trackers
  /** Feed position up to which a tracker is informed; null if it never was. */
  getTrackerPosition(tracker: string): Promise<number | null>;
  /** Writes in one transaction: the position, and the number of reported gradient steps per model. */
  advanceTracker(tracker: string, position: number, gradientSteps: ReadonlyMap<string, number>): Promise<void>;
  /** Returns the run, also of deleted models, for a week. */
  getTrackedRun(tracker: string, modelId: string): Promise<TrackedRunRecord | null>;
  /** @param run null if it has none any more */
  setTrackedRun(tracker: string, modelId: string, run: TrackedRunRecord | null): Promise<void>;

  // trajectories
  /** Trajectories of jobs and logs. @throws {StoreError} `store.cursor_unknown` */
  listTrajectories(query: TrajectoryQuery): Promise<Page<TrajectorySummary>>;
  /** Returns null if unknown. */
  getTrajectory(trajectoryId: string): Promise<TrajectoryRecord | null>;
  /** Traces of its trained tokens, one per gradient step that contained it; empty if none were kept. */
  listTokenTraces(trajectoryId: string): Promise<TokenTrace[]>;

  // trajectory logs
  /**
   * Stores the log, adds its metrics to the run, and puts them on the latest checkpoint, replacing those of
   * its last log of that split. Null if the model is unknown.
   */
  recordLog(input: NewLog): Promise<TrajectoryLog | null>;
  /** Logs in order of recording. */
  listLogs(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>>;

  // artifacts
  /**
   * Creates the next version of its name (the first is 0). If the newest is the same file, returns that one.
   */
  addArtifact(input: NewArtifact & { completes?: CompletesWith<AddArtifactResult> }): Promise<AddArtifactResult>;
  findArtifact(name: ArtifactName, version: number | 'latest'): Promise<Artifact | null>;
  /** Artifacts in order of creation. */
  listArtifacts(
    query: OrderedPageQuery & { entityId: string; project?: string; name?: string },
  ): Promise<Page<Artifact>>;
  /** Deletes an artifact. False if unknown or already deleted. The caller removes its blob afterwards. */
  deleteArtifact(artifactId: string, completes?: IdempotentAnswer): Promise<boolean>;

  // exports
  /**
   * Queues an export of a checkpoint. The files stay until it ends, even if the checkpoint is deleted. Null
   * if the model or step is unknown.
   * @throws {StoreError} `store.queue_full`
   */
  createExport(input: NewExport): Promise<ModelExport | null>;
  getExport(exportId: string): Promise<ModelExport | null>;
  /** Exports in order of creation. */
  listExports(query: OrderedPageQuery & { modelId: string }): Promise<Page<ModelExport>>;
  /**
   * Writes in one transaction: the files, `job_ended`, the status. A failure is reported like that of any
   * job. @throws {StoreError} `store.lease_lost`
   */
  finishExport(exportId: string, fencingToken: number, outcome: ExportOutcome): Promise<FinishedExport>;
  /**
   * Deletes an export in any status and cancels its job. Null if unknown. The caller removes `directoryKeys`
   * from the blobs afterwards.
   */
  deleteExport(exportId: string, completes?: IdempotentAnswer): Promise<{ directoryKeys: string[] } | null>;

  // imported adapters
  /** Starts an upload. @throws {StoreError} `store.queue_full` */
  createAdapter(input: NewAdapter): Promise<Adapter>;
  getAdapter(adapterId: string): Promise<Adapter | null>;
  /** Adapters in order of creation; includes unfinished uploads. */
  listAdapters(query: OrderedPageQuery & { entityId: string }): Promise<Page<Adapter>>;
  /**
   * Queues the import of an upload, or returns the one that is queued or running. Null if the adapter is
   * unknown or already committed.
   * @param maxLive maximum of all imports
   * @throws {StoreError} `store.queue_full`
   */
  enqueueImport(adapterId: string, options?: { maxLive?: number; origin?: JobOrigin }): Promise<ImportJob | null>;
  /**
   * Writes in one transaction: the committed adapter, `job_ended`, the status. The caller removes `blobKeys`
   * afterwards. @throws {StoreError} `store.lease_lost`
   */
  finishImport(
    jobId: string,
    fencingToken: number,
    content: NonNullable<Adapter['content']>,
  ): Promise<CommittedAdapter>;
  /**
   * Deletes an adapter and cancels its import; models that started from it keep its files. Null if unknown.
   * The caller removes the returned files.
   */
  deleteAdapter(adapterId: string, completes?: IdempotentAnswer): Promise<RemovedAdapters | null>;
  /**
   * Deletes uploads of the entity that started before that time and were never committed. The caller removes
   * the returned files.
   */
  expireAdapterUploads(entityId: string, before: number): Promise<RemovedAdapters>;

  // idempotency keys
  /**
   * Claims `(keyId, key)` for this request, or returns its state. Answers are kept for 24 hours. A claim
   * belongs to its process for the life of the process plus a minute. A write with the answer (`completes`)
   * fails with `store.busy` if another process has claimed it since.
   */
  beginIdempotent(request: { keyId: string; key: string; requestHash: string }): Promise<IdempotentState>;
  /** Keeps the answer for repeats. Has no effect if the record is gone or complete. */
  completeIdempotent(answer: IdempotentAnswer): Promise<void>;
  /**
   * Frees the key after a failure without effect, so that a repeat is tried again. A complete record stays.
   *
   * @returns false if the request is known to belong to another process by now, or to be answered
   */
  abandonIdempotent(request: { keyId: string; key: string }): Promise<boolean>;

  // usage
  /**
   * Resolves once every process sees the usage: from then on the end of this process loses nothing, a power
   * failure may. If the store has trouble, it resolves after half a second, or at once while the trouble
   * lasts, and the usage is written later.
   */
  recordUsage(usage: Usage): Promise<void>;
  /**
   * Totals by project, model and kind for `from <= time < to`, over all processes. First writes this
   * process's pending usage. Usage merged by `mergeUsage` counts at the start of its hour (UTC), so bounds at
   * whole hours stay exact.
   */
  sumUsage(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]>;

  /**
   * Usage for `from <= time < to`, grouped by these parts and in their order, at most `limit` rows. Bounds as
   * for `sumUsage`.
   */
  groupUsage(query: {
    entityId: string;
    by: readonly UsagePart[];
    from: number;
    to: number;
    limit: number;
  }): Promise<UsageGroup[]>;

  /**
   * Keeps a sampled choice for a while, as safely as usage. Keeps nothing for a deleted model. Needs one
   * log-probability per token (asserted).
   * @returns the id with which `findChoiceRecords` finds it in every process. While the store cannot be
   *   written, the id is returned after half a second and is found later
   */
  recordChoice(record: NewChoiceRecord): Promise<string>;
  /**
   * Known records of the entity, by id. Records stay until `purgeExpired`, or until newer ones need their
   * room. Writes the buffer first.
   */
  findChoiceRecords(entityId: string, recordIds: readonly string[]): Promise<Map<string, ChoiceRecord>>;

  // answers kept for clients
  readonly keptAnswers: KeptAnswers;
  readonly conversations: Conversations;

  // parts of a service
  /**
   * Registers this process for a role until the lease ends. One row per role of a process: it replaces that
   * of an earlier run. Wakes watchers of the feed.
   */
  registerMember(member: NewMember, leaseMs: number): Promise<void>;
  /**
   * Heartbeat of a member of this process: extends its lease to `leaseMs` from now, on the clock of the
   * store.
   * @returns false if it is no longer registered: its lease ended, and the row was removed
   */
  renewMember(role: MemberRole, facts: MemberFacts, leaseMs: number): Promise<boolean>;
  /** Members of all processes whose lease has not ended, by role and id. */
  listMembers(): Promise<Member[]>;
  /** Removes a member of this process at its orderly end. */
  removeMember(role: MemberRole): Promise<void>;

  // upkeep
  /**
   * Recovers once, before the process takes requests, what the last run of this instance (`instanceId`) left
   * open; touches nothing of others. Running jobs and exports return to the queue (the attempt counts);
   * idempotency records in progress are dropped, so their repeats run; files announced but not named become
   * orphans. Remains of an instance that never returns expire with its leases, and by age.
   */
  recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }>;
  /**
   * Removes expired idempotency records, records of choices, kept answers, conversations and members, and the
   * remains of models deleted more than a week ago. @param now default: the clock
   */
  purgeExpired(now?: number): Promise<{ numModels: number; numRequests: number }>;
  /**
   * Marks as removed the data of up to `limit` jobs that ended and logs that were recorded before that time;
   * their rows stay. The caller then moves `blobKeys` to the bin. No row names them any more, so a crash
   * leaves orphans.
   *
   * @returns empty once nothing is that old
   */
  expireTrajectories(before: number, limit: number): Promise<ExpiredTrajectories>;
  /**
   * Merges up to `limit` usage records from before the hour of that time into one per hour, key, project,
   * model and kind.
   *
   * @returns the number merged; 0 if none is left
   */
  mergeUsage(before: number, limit: number): Promise<number>;
  /** Counts jobs and logs that have their data, and those whose data were removed since that time. */
  countData(removedSince: number): Promise<{ numKept: number; numRemoved: number }>;
  /**
   * Announces that a file of this key (blob or directory) is about to be written and that a row will name it;
   * until then other processes do not treat it as an orphan. Expires after a day, unless its process runs a
   * job.
   */
  announceKey(key: string): Promise<void>;
  /** Announced keys whose row is still to come, or came within the last day. */
  listAnnouncedKeys(): Promise<string[]>;
  /**
   * All keys that this database announced or named and whose files were not seen to be gone, with the time
   * since which they are orphans.
   */
  listKnownKeys(): Promise<KnownKey[]>;
  /** Makes every key named by a row a known key. */
  learnNamedKeys(): Promise<void>;
  /** Records exactly these keys as orphans. Those recorded before keep their time. */
  setOrphans(keys: readonly string[]): Promise<void>;
  /** Forgets known keys whose files are gone. */
  forgetKeys(keys: readonly string[]): Promise<void>;
  /**
   * Last clock reading used to remove old data; before the first, the time of the newest row; null without
   * rows.
   */
  trustedClock(): Promise<number | null>;
  /**
   * Time for removals by age: the clock, but at most an hour after its last trusted reading known to this
   * process.
   */
  ageClock(): number;
  trustClock(at: number): Promise<void>;
  /** Creates rows for a checkpoint that is in the blobs but not in this database. */
  adoptCheckpoint(checkpoint: AdoptedCheckpoint): Promise<AdoptResult>;
  /** Every blob and artifact key that a row names; any other blob is garbage unless it is announced. */
  listReferencedKeys(): Promise<{ directoryKeys: string[]; blobKeys: string[] }>;
  /**
   * True if a row names this blob or artifact key. Decides about a file whose row may or may not have been
   * written.
   */
  isNamed(key: string): Promise<boolean>;
  /** Returns those of these adapter digests that no checkpoint and no imported adapter has. */
  unusedDigests(digests: readonly string[]): Promise<string[]>;
  /** Kept steps with these digests, newest first; several steps may have equal weights. */
  stepsOf(digests: readonly string[]): Promise<NamedStep[]>;
  /**
   * Reason why the store cannot write, in words that name no file: a long lock, no response, a full disk.
   * Null if none is known.
   */
  trouble(): string | null;
  /**
   * Number of idle connections that the database has ended. When it grows, the database may have crashed, and
   * lost the latest writes that did not wait for the disk. Always 0 without connections.
   */
  numLostConnections(): number;
  /**
   * True if the database does not answer, asked now on a separate connection for at most 2 s. A busy or
   * refusing database is not away. Never rejects.
   */
  isAway(): Promise<boolean>;
  /**
   * Calls `wake` soon after this process has added to the feed or registered a member; if the database has
   * notifications, after any process has. A call may come late, twice or never: it is a hint to read the
   * feed. @returns stops watching
   */
  watchFeed(wake: () => void): () => void;
  /** Milliseconds since the epoch on the clock of all writes: the database's, if it has one. */
  now(): number;
  /** Name of the blobs that belong to this database; null before `claimBlobs`. */
  blobsId(): Promise<string | null>;
  /**
   * Permanently names the blobs that belong to this database. @returns their name: another one if a different
   * process was first
   */
  claimBlobs(id: string): Promise<string>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface NewKey {
  entityId: string;
  name: string;
  scopes: readonly Scope[];
  /** Milliseconds since the epoch; default null: never. */
  expiresAt?: number | null;
  /** Default false. */
  isServiceKey?: boolean;
  /**
   * Secret from `makeKeySecret`, for a caller that must store it before the key exists. Default: `createKey`
   * makes one.
   */
  secret?: string;
  /** Default: none. `ensureKey` does not change those of an existing key. */
  limits?: KeyLimits;
}

export interface NewModel {
  entityId: string;
  project: string;
  name: string;
  baseModel: string;
  lora: LoraShape;
  /** Weights of step 0; default: those of the base model. */
  warmStart?: NewWarmStart;
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
 * Result of `createModel`. `exists` carries the stored model, with any base model. `warm_start_missing`: the
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

/** A key that this database announced or named. */
export interface KnownKey {
  readonly key: string;
  /** Milliseconds since the epoch; null if a row names it, or will. */
  readonly orphanedAt: number | null;
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

export interface ExpiredTrajectories {
  numJobs: number;
  numLogs: number;
  blobKeys: string[];
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
  /** Digests of the prompts of the same trajectories; default: unknown. */
  prompts?: GroupPrompts;
  /** Step whose weights are kept until the job ends, as by `keepReference`, if the model has it already. */
  referenceStep?: number | null;
  /** Default: a random UUID. Set it to know the answer before the job exists. */
  id?: string;
  /** Written in the same transaction: a repeat of the request never creates a second job. */
  completes?: IdempotentAnswer;
}

/** Filters of jobs; an omitted one passes all. */
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
   * `gradient_step` (asserted).
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

export interface NewLog extends LogCounts {
  modelId: string;
  split: string;
  blobKey: string;
  /** Full names, e.g. `val/reward`. */
  metrics: Metrics;
  /** Rewards of its trajectories; default: none to list. */
  rewards?: GroupRewards;
  /** Digests of the prompts of the same trajectories; default: unknown. */
  prompts?: GroupPrompts;
  completes?: IdempotentAnswer;
}

export interface ArtifactName {
  entityId: string;
  project: string;
  name: string;
}

export interface NewArtifact extends ArtifactName {
  fileName: string;
  blobKey: string;
  digest: string;
  sizeBytes: number;
  numLines: number;
}

/** `isNew` false: the file existed already, and the blob of the input is not needed. */
export interface AddArtifactResult {
  artifact: Artifact;
  isNew: boolean;
}

export interface NewExport {
  modelId: string;
  step: number;
  format: string;
  dtype: string;
  /**
   * Maximum number of exports of the model that are queued or running, this one included; default: unlimited.
   */
  maxLive?: number;
  /** Default: a random UUID. */
  id?: string;
  /** Default: no known request. */
  origin?: JobOrigin;
  completes?: IdempotentAnswer;
}

export interface ExportOutcome {
  /** Directory with the files, committed before. */
  directoryKey: string;
  files: readonly ExportedFile[];
  parity: object;
}

export interface FinishedExport {
  export: ModelExport;
  /** Directories that are no longer referenced: the source, if its checkpoint was deleted meanwhile. */
  directoryKeys: string[];
}

export interface NewAdapter {
  entityId: string;
  baseModel: string;
  configKey: string;
  weightsKey: string;
  /** Maximum number of open uploads of the entity, this one included; default: unlimited. */
  maxOpen?: number;
  /** Default: a random UUID. */
  id?: string;
  completes?: IdempotentAnswer;
}

export interface CommittedAdapter {
  adapter: Adapter;
  blobKeys: string[];
}

export interface RemovedAdapters {
  directoryKeys: string[];
  /** Adapter versions that no model and no import has any more. */
  digests: string[];
  blobKeys: string[];
}

/** `mismatch`: the key was used for another request. */
export type IdempotentState =
  | { kind: 'started' }
  | { kind: 'completed'; status: number; body: string }
  | { kind: 'in_progress' }
  | { kind: 'mismatch' };
