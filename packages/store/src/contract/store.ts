import type { CheckpointRetention, MarkedCheckpoints } from './checkpoint-retention.ts';
import type { ChoiceRecord, NewChoiceRecord } from './choice-record.ts';
import type { Conversations } from './conversation.ts';
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
 * Durable state. Every write is one transaction: when the promise resolves it is on disk, when it rejects nothing of it is
 * (after `store.unavailable`, an I/O error, it may be: `isNamed` tells). While another process has the database a call waits without blocking
 * this thread, and rejects with `store.busy` when that takes too long.
 *
 * Unknown and deleted ids give null (or an empty page), so that a caller cannot tell them apart. Expected conflicts are tagged
 * results; everything else is a `StoreError`. Metrics must be finite numbers (asserted).
 */
export interface Store extends CheckpointRetention {
  /** Names this process among all that share the store, and those that come after it on the same data folder: what one left, the next takes up. */
  readonly instanceId: string;

  // entities and keys
  /** The entity of that name, made when absent. */
  ensureEntity(name: string): Promise<Entity>;
  /** Makes a key with the secret of the input, or a random one of 256 bits. It is returned here only. */
  createKey(input: NewKey & { completes?: CompletesWith<ApiKey> }): Promise<ApiKey & { secret: string }>;
  /**
   * The key with this operator-chosen secret (e.g. from the environment): made when absent, else its owner, name, scopes and end are updated
   * and it is valid again. As the service's key it takes the place of the one before, which is revoked in the same transaction.
   */
  ensureKey(input: NewKey & { secret: string }): Promise<ApiKey & { numReplaced: number }>;
  /** Null when the secret is unknown or revoked, or has expired. */
  verifyKey(secret: string): Promise<Caller | null>;
  /** Oldest first, revoked ones included; of one entity, or of all. */
  listKeys(entityId?: string): Promise<ApiKey[]>;
  /** Whatever its state. Null when unknown. */
  getKey(keyId: string): Promise<ApiKey | null>;
  /** From its next request on; those that are left out stay as they are. Null when unknown. */
  setKeyLimits(keyId: string, limits: Partial<KeyLimits>): Promise<ApiKey | null>;
  /** Ends its sessions and links too. False when unknown or revoked before. */
  revokeKey(keyId: string): Promise<boolean>;

  // limits of keys
  /**
   * Tells what this process has used of limited keys, and asks which requests may begin: one transaction, by the clock of the store, that does not wait for the
   * disk. Places in flight are this process's for 15 s.
   * @returns in the order of the spendings
   */
  spendKeyLimits(spendings: readonly KeySpending[]): Promise<KeyAnswer[]>;

  // browsers that are signed in
  /** Signs a browser in for 30 days, with a secret of 256 random bits, which is returned here only. Of one key the newest 100 stay. */
  openSession(keyId: string): Promise<SignIn>;
  /** Null when it is unknown or has ended, or its key is not valid any more. */
  findSession(secret: string): Promise<Session | null>;
  closeSession(secret: string): Promise<void>;
  /** Makes a link, which works once, for 15 minutes; as `openSession`. */
  createSignInLink(keyId: string): Promise<SignIn>;
  /** Uses a link up. @returns the id of its key; null when it was used, has expired or never was */
  redeemSignInLink(secret: string): Promise<string | null>;

  // models
  /** Makes the model and its checkpoint of step 0, with the weights of `init` where given. Identity is (entity, project, name). */
  createModel(input: NewModel): Promise<CreateModelResult>;
  getModel(modelId: string): Promise<Model | null>;
  /** @param entity name of the entity, not its id */
  findModel(entity: string, project: string, name: string): Promise<Model | null>;
  /** By name alone, over all projects of the entity (given by name). */
  findModelByName(entity: string, name: string): Promise<FindModelResult>;
  /** In order of creation. */
  listModels(query: OrderedPageQuery & { entityId?: string; project?: string }): Promise<Page<Model>>;
  /** By model, in a few statements for all of them; unknown models are left out. */
  getModelStates(modelIds: readonly string[]): Promise<ReadonlyMap<string, ModelState>>;
  /**
   * Cancels the model's live jobs, each with a `training_failed` event, then deletes it and its checkpoints. From then on it is unknown everywhere, with its run
   * and trajectories; their rows are removed in short transactions behind that one, the last of them before this resolves. Its jobs and events stay
   * readable until `purgeExpired`. Null when unknown.
   */
  deleteModel(modelId: string, completes?: CompletesWith<DeleteModelResult>): Promise<DeleteModelResult | null>;

  // checkpoints
  /** By step; step 0 (no artifact) included. */
  listCheckpoints(query: OrderedPageQuery & { modelId: string }): Promise<Page<Checkpoint>>;
  getCheckpoint(modelId: string, step: number): Promise<Checkpoint | null>;
  /** The one with the highest step; null when all were deleted. */
  latestCheckpoint(modelId: string): Promise<Checkpoint | null>;
  /** Directories of the newest kept checkpoints, `limit` at most, by the digests of their weights. Of equal weights the newest counts. */
  newestVersions(modelId: string, limit: number): Promise<ReadonlyMap<string, string>>;
  /**
   * The step at which rollouts took over: that of the last supervised job up to `step`, else 0. Deleted checkpoints count.
   */
  rolloutsBeganAt(modelId: string, step: number): Promise<number>;
  /** Duplicate steps count once. The caller removes `directoryKeys` from the blobs afterwards. */
  deleteCheckpoints(
    modelId: string,
    steps: readonly number[],
    completes?: CompletesWith<DeleteCheckpointsResult>,
  ): Promise<DeleteCheckpointsResult>;
  /** Adds or replaces these metrics, keeping the others. Null when there is no such checkpoint. */
  mergeCheckpointMetrics(modelId: string, step: number, metrics: Metrics): Promise<Checkpoint | null>;

  /**
   * Marks live and removed steps, or takes the marks away; a marked step is never removed by the policy. A removed step that is marked is live again: its files
   * must be back before.
   */
  markCheckpoints(
    modelId: string,
    steps: readonly number[],
    isKept: boolean,
    completes?: CompletesWith<MarkedCheckpoints>,
  ): Promise<MarkedCheckpoints>;

  // jobs
  /** One that trains. Null when the model is unknown. @throws {StoreError} `store.queue_full` */
  enqueueJob(input: NewJob): Promise<TrainingJob | null>;
  /** A job of any kind. */
  getJob(jobId: string): Promise<Job | null>;
  /** Those that train, in order of submission; jobs of deleted models included. */
  listJobs(query: OrderedPageQuery & JobFilter): Promise<Page<TrainingJob>>;
  /** Training jobs that have not ended, in order of submission; of one entity, or of all. */
  listQueue(query: { entityId?: string; limit: number }): Promise<QueuedJob[]>;
  /**
   * Takes the first job of these kinds in submission order that is queued and not paused, or running under an expired lease, and whose turn has
   * no earlier live job; a paused job is live. Sets the `start` of a training job at the first claim. Null when there is nothing to do.
   *
   * @param kinds default: those that train
   * @param baseModels jobs that need the files of another are left to others; default: of any base model
   */
  claimNextJob<Kind extends JobKind = TrainingJobConfig>(
    workerId: string,
    leaseMs: number,
    kinds?: readonly Kind[],
    baseModels?: readonly string[],
  ): Promise<ClaimedJob<JobOfKind<Kind>> | null>;
  /** Heartbeat: holds for `leaseMs` from `now` on, default the time of the write. @throws {StoreError} `store.lease_lost` */
  renewLease(jobId: string, fencingToken: number, leaseMs: number, now?: number): Promise<void>;
  /** Puts the job back to queued, in its old place, without counting the attempt (graceful shutdown). @throws {StoreError} `store.lease_lost` */
  releaseLease(jobId: string, fencingToken: number): Promise<void>;
  /**
   * Appends a progress event. With a `dedupeKey` that the job has used already, nothing is written and the first event is returned.
   * Terminal types are refused (asserted): they belong to the finish methods. A new `gradient_step` makes the attempt the first again.
   * @throws {StoreError} `store.lease_lost`
   */
  appendEvent(jobId: string, fencingToken: number, event: NewEvent): Promise<{ event: JobEvent; isDuplicate: boolean }>;
  /** One transaction: checkpoint at the model's next step, `training_ended`, status. @throws {StoreError} `store.lease_lost` */
  finishJobSucceeded(
    jobId: string,
    fencingToken: number,
    outcome: JobOutcome,
  ): Promise<FinishedJob & { checkpoint: Checkpoint }>;
  /**
   * One transaction: the terminal event with `error_message` and whatever else is said, status. Of any kind of job.
   * @param data any JSON object, default empty
   * @throws {StoreError} `store.lease_lost`
   */
  finishJobFailed(jobId: string, fencingToken: number, errorMessage: string, data?: object): Promise<FinishedJob>;
  /** Ends a queued or running job as failed; a worker that has it loses its lease. Null when unknown. */
  cancelJob(jobId: string, reason: string, completes?: CompletesWith<CancelJobResult>): Promise<CancelJobResult | null>;
  /** Holds a queued or running job; a worker that has it loses its lease, and the attempt does not count. Its place stays. Null when unknown. */
  pauseJob(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null>;
  /** Lets a paused job be claimed again. Null when unknown. */
  resumeJob(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null>;
  /**
   * Keeps the weights of a step of the job's own model until the job ends, whatever is deleted meanwhile.
   * @returns what the job kept before, when there is such; else the checkpoint of `step`; null when that does not exist
   * @throws {StoreError} `store.lease_lost`
   */
  keepReference(jobId: string, fencingToken: number, step: number): Promise<{ directoryKey: string | null } | null>;
  /**
   * Names the directory, which is in the blobs by now, as the newest snapshot of the job, until the job ends.
   * @param snapshot its key begins with `snapshotsOf(jobId)` (asserted), and was announced
   * @returns the directory that it takes the place of, and others of the job that were announced and never named, for the caller to remove
   * @throws {StoreError} `store.lease_lost`
   */
  keepSnapshot(jobId: string, fencingToken: number, snapshot: JobSnapshot): Promise<{ replacedKeys: string[] }>;
  /** How many events of that type the job has. */
  countEvents(jobId: string, type: JobEventType): Promise<number>;
  /** Oldest first, of one type where it is given. Null when the job is unknown. */
  listEvents(query: PageQuery & { jobId: string; type?: JobEventType }): Promise<Page<JobEvent> | null>;

  // runs
  /** By name; empty for an unknown model. */
  listSeries(modelId: string): Promise<MetricSeries[]>;
  /** In the order of the names. Each is made as many points as were asked for, at most. */
  readSeries(query: SeriesQuery): Promise<Series[]>;
  /** The best kept checkpoint by {@link BEST_BY}; null when none has a value, and for an unknown model. */
  bestCheckpoint(modelId: string): Promise<BestCheckpoint | null>;
  /** Whatever happened, oldest first; kept for a week. */
  listFeed(query: FeedQuery): Promise<FeedItem[]>;
  /** Position of the newest item of all entities; 0 when nothing has happened. */
  lastFeedPosition(): Promise<number>;

  // trackers outside
  /** Feed position up to which a tracker was told; null when it never was. */
  getTrackerPosition(tracker: string): Promise<number | null>;
  /** One transaction: the position, and the gradient steps that were told of each of these models. */
  advanceTracker(tracker: string, position: number, gradientSteps: ReadonlyMap<string, number>): Promise<void>;
  /** Also of deleted models, for a week. */
  getTrackedRun(tracker: string, modelId: string): Promise<TrackedRunRecord | null>;
  /** @param run null: it has none any more */
  setTrackedRun(tracker: string, modelId: string, run: TrackedRunRecord | null): Promise<void>;

  // trajectories
  /** Those of jobs and logs. @throws {StoreError} `store.cursor_unknown` */
  listTrajectories(query: TrajectoryQuery): Promise<Page<TrajectorySummary>>;
  /** Null when unknown. */
  getTrajectory(trajectoryId: string): Promise<TrajectoryRecord | null>;
  /** Its tokens as they were trained, a trace for each gradient step that it was in; empty where nothing was kept. */
  listTokenTraces(trajectoryId: string): Promise<TokenTrace[]>;

  // trajectory logs
  /** Stores the log, adds its metrics to the run, and puts them on the latest checkpoint in place of those of the last log of that split there. Null when the model is unknown. */
  recordLog(input: NewLog): Promise<TrajectoryLog | null>;
  /** In order of recording. */
  listLogs(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>>;

  // artifacts
  /** Makes the next version of its name (the first is 0), unless the newest one is the same file: then that one is the result. */
  addArtifact(input: NewArtifact & { completes?: CompletesWith<AddArtifactResult> }): Promise<AddArtifactResult>;
  findArtifact(name: ArtifactName, version: number | 'latest'): Promise<Artifact | null>;
  /** In order of creation. */
  listArtifacts(
    query: OrderedPageQuery & { entityId: string; project?: string; name?: string },
  ): Promise<Page<Artifact>>;
  /** False when unknown or deleted before. The caller removes its blob afterwards. */
  deleteArtifact(artifactId: string, completes?: IdempotentAnswer): Promise<boolean>;

  // exports
  /**
   * Queues an export of a checkpoint, whose files stay until it ends, whatever is deleted meanwhile. Null when model or step are unknown.
   * @throws {StoreError} `store.queue_full`
   */
  createExport(input: NewExport): Promise<ModelExport | null>;
  getExport(exportId: string): Promise<ModelExport | null>;
  /** In order of creation. */
  listExports(query: OrderedPageQuery & { modelId: string }): Promise<Page<ModelExport>>;
  /** One transaction: the files, `job_ended`, status; a failure is told as that of any job. @throws {StoreError} `store.lease_lost` */
  finishExport(exportId: string, fencingToken: number, outcome: ExportOutcome): Promise<FinishedExport>;
  /** Whatever its status; its job is cancelled. Null when unknown. The caller removes `directoryKeys` from the blobs afterwards. */
  deleteExport(exportId: string, completes?: IdempotentAnswer): Promise<{ directoryKeys: string[] } | null>;

  // imported adapters
  /** Begins an upload. @throws {StoreError} `store.queue_full` */
  createAdapter(input: NewAdapter): Promise<Adapter>;
  getAdapter(adapterId: string): Promise<Adapter | null>;
  /** In order of creation, unfinished uploads included. */
  listAdapters(query: OrderedPageQuery & { entityId: string }): Promise<Page<Adapter>>;
  /**
   * Queues the import of an upload, or finds the one that is queued or runs. Null when the adapter is unknown or committed already.
   * @param maxLive of all imports
   * @throws {StoreError} `store.queue_full`
   */
  enqueueImport(adapterId: string, options?: { maxLive?: number; origin?: JobOrigin }): Promise<ImportJob | null>;
  /** One transaction: the adapter is committed, `job_ended`, status. The caller removes `blobKeys` afterwards. @throws {StoreError} `store.lease_lost` */
  finishImport(
    jobId: string,
    fencingToken: number,
    content: NonNullable<Adapter['content']>,
  ): Promise<CommittedAdapter>;
  /** Its import is cancelled; models that began with it keep its files. Null when unknown. The caller removes what is returned. */
  deleteAdapter(adapterId: string, completes?: IdempotentAnswer): Promise<RemovedAdapters | null>;
  /** Deletes uploads of the entity that began before that time and were never committed. The caller removes what is returned. */
  expireAdapterUploads(entityId: string, before: number): Promise<RemovedAdapters>;

  // idempotency keys
  /**
   * Claims `(keyId, key)` for this request, or tells what became of it. Answers are kept for 24 hours. What a process has claimed is its own while it lives, and a
   * minute longer; whatever names the answer in a write (`completes`) is refused with `store.busy` when another process has claimed it since.
   */
  beginIdempotent(request: { keyId: string; key: string; requestHash: string }): Promise<IdempotentState>;
  /** Keeps the answer for repeats. Without effect when the record is gone or complete. */
  completeIdempotent(answer: IdempotentAnswer): Promise<void>;
  /**
   * Frees the key after a failure that had no effect, so that a repeat is tried again. A complete record stays.
   *
   * @returns false when the request is known not to be this process's any more: it was answered, or another process has taken it up
   */
  abandonIdempotent(request: { keyId: string; key: string }): Promise<boolean>;

  // usage
  /**
   * Resolves when every process sees it: the end of this process loses nothing from then on, a power failure may. When the store has trouble it resolves
   * after half a second, or at once while the trouble lasts, and the usage is written later.
   */
  recordUsage(usage: Usage): Promise<void>;
  /**
   * Totals by project, model and kind for `from <= time < to`, over all processes. Writes what this one has not yet. What `mergeUsage` has merged counts at the beginning of
   * its hour (UTC), so bounds that are whole hours stay exact.
   */
  sumUsage(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]>;

  /** Usage for `from <= time < to`, told apart by these parts, at most `limit` rows, by the order of the parts. Bounds as those of `sumUsage`. */
  groupUsage(query: {
    entityId: string;
    by: readonly UsagePart[];
    from: number;
    to: number;
    limit: number;
  }): Promise<UsageGroup[]>;

  // records of sampled choices
  /**
   * Keeps what was sampled for a while, as safely as usage. Nothing is kept of a deleted model. There must be a log-probability for each
   * token (asserted).
   * @returns the id under which `findChoiceRecords` finds it, in every process; while the store cannot be written that comes true later, and the id
   * after half a second
   */
  recordChoice(record: NewChoiceRecord): Promise<string>;
  /** Those of the entity that are known, by id: records stay until `purgeExpired`, or until newer ones need their room. Writes the buffer first. */
  findChoiceRecords(entityId: string, recordIds: readonly string[]): Promise<Map<string, ChoiceRecord>>;

  // answers kept for clients
  readonly keptAnswers: KeptAnswers;
  readonly conversations: Conversations;

  // parts of a service
  /**
   * Says that this process has begun to do that work, for so long as it says it again. One row for each of its roles: what a run before it left is
   * replaced. Whoever watches the feed is told.
   */
  registerMember(member: NewMember, leaseMs: number): Promise<void>;
  /**
   * Heartbeat of a member of this process: holds for `leaseMs` from now on, by the clock of the store.
   * @returns false when it is not registered any more: its lease ended, and the row was removed
   */
  renewMember(role: MemberRole, facts: MemberFacts, leaseMs: number): Promise<boolean>;
  /** Those whose lease has not ended, of all processes, by role and id. */
  listMembers(): Promise<Member[]>;
  /** The orderly end of a member of this process. */
  removeMember(role: MemberRole): Promise<void>;

  // upkeep
  /**
   * Once, before the process takes requests: whatever the run before it left open (`instanceId`) is put back, and nothing of others.
   * Running jobs and exports return to the queue (the attempt counts); idempotency records in progress are dropped, so their repeats run;
   * files that were announced and not named become orphans. What an instance left that never comes back goes by its leases, and by age.
   */
  recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }>;
  /** Removes expired idempotency records, records of choices, kept answers, conversations and members, and the remains of models deleted more than a week ago. @param now default: the clock */
  purgeExpired(now?: number): Promise<{ numModels: number; numRequests: number }>;
  /**
   * Marks the data of up to `limit` jobs that ended and logs that were recorded before that time as removed; their rows stay.
   * The caller moves `blobKeys` to the bin afterwards: no row names them any more, so that what a crash leaves is an orphan.
   *
   * @returns nothing marked when nothing is that old any more
   */
  expireTrajectories(before: number, limit: number): Promise<ExpiredTrajectories>;
  /**
   * Merges up to `limit` records of usage from before the hour of that time into one an hour for each key, project, model and kind.
   *
   * @returns how many were merged; 0 when none is left
   */
  mergeUsage(before: number, limit: number): Promise<number>;
  /** Number of jobs and logs that have their data, and of those whose data were removed since that time. */
  countData(removedSince: number): Promise<{ numKept: number; numRemoved: number }>;
  /**
   * Says that a file of this key (of a blob or a directory) is about to be written, and that a row will name it: until then it is no orphan to
   * other processes. This ends after a day, unless its process runs a job.
   */
  announceKey(key: string): Promise<void>;
  /** Those whose row is still to come, or came within the last day. */
  listAnnouncedKeys(): Promise<string[]>;
  /** All keys that this database announced or named and whose files were not seen to be gone, with the time since when they are orphans. */
  listKnownKeys(): Promise<KnownKey[]>;
  /** Makes every key that a row names a known key. */
  learnNamedKeys(): Promise<void>;
  /** Notes that these keys, and no others, are orphans. Keys that were noted before keep their time. */
  setOrphans(keys: readonly string[]): Promise<void>;
  /** Drops known keys whose files are gone. */
  forgetKeys(keys: readonly string[]): Promise<void>;
  /** The last reading of the clock that the removal of old data went by; before the first one the time of the newest row, null without rows. */
  trustedClock(): Promise<number | null>;
  /** The time by which removals by age go: the clock, but at most an hour after its last trusted reading that this process knows. */
  ageClock(): number;
  /** Records a trusted reading of the clock. */
  trustClock(at: number): Promise<void>;
  /** Makes rows for a checkpoint that the blobs have and this database does not know. */
  adoptCheckpoint(checkpoint: AdoptedCheckpoint): Promise<AdoptResult>;
  /** Every blob and artifact key that a row still names; anything else in the blobs is garbage, unless it is announced. */
  listReferencedKeys(): Promise<{ directoryKeys: string[]; blobKeys: string[] }>;
  /** Whether a row names this blob or artifact key; decides what becomes of a file whose row was written or not. */
  isNamed(key: string): Promise<boolean>;
  /** Filters these digests of adapters for those that no checkpoint and no imported adapter has. */
  unusedDigests(digests: readonly string[]): Promise<string[]>;
  /** The kept steps that have these digests, the newest first; equal weights may be several steps. */
  stepsOf(digests: readonly string[]): Promise<NamedStep[]>;
  /** The reason why the store cannot write, in words that name no file: others have its lock for long, it does not answer, its disk is full. Null: none is known. */
  trouble(): string | null;
  /** Whether the database does not answer: asked now, on a connection of its own, for 2 s at most. One that is busy, or refuses, is not away. Never rejects. */
  isAway(): Promise<boolean>;
  /**
   * Calls `wake` soon after this process has added to the feed; after any has, or has registered, where the database tells of it. It may come late, twice or never: it says
   * when to look, and the feed says what there is. @returns ends it
   */
  watchFeed(wake: () => void): () => void;
  /** Milliseconds since the epoch by the clock that everything here is written by: the database's, where that has one. */
  now(): number;
  /** The name of the blobs that belong to this database; null before `claimBlobs`. */
  blobsId(): Promise<string | null>;
  /** Names the blobs that belong to this database, once and for all. @returns the name that they have, another where somebody came first */
  claimBlobs(id: string): Promise<string>;
  /** Resolves when the database answers. */
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
  /** From `makeKeySecret`, for a caller that must keep it before the key exists. Default: `createKey` makes one. */
  secret?: string;
  /** Default: none. `ensureKey` leaves those of a key that is there. */
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

/** A checkpoint of a model in this store, or a directory that was committed for this purpose and that no row names yet. */
export type NewWarmStart = { source: string } & (
  | { kind: 'checkpoint'; modelId: string; step: number }
  | { kind: 'directory'; directoryKey: string; digest: string }
);

/** `exists` carries the stored model, whatever base model it has. `init_missing`: the checkpoint to begin with is gone. */
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
  /** Whether its metrics went with it. */
  deletedRun: boolean;
  /** Directories that nothing refers to any more. */
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
  /** Milliseconds since the epoch; null: a row names it, or its row is still to come. */
  readonly orphanedAt: number | null;
}

/** A checkpoint as its folder describes it, with the model that it belongs to. */
export interface AdoptedCheckpoint {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly modelId: string;
  readonly baseModel: string;
  readonly lora: LoraShape;
  /** The weights that the model started from, without a digest when they are gone; null: the base model. */
  readonly warmStart: { readonly source: string; readonly directoryKey: string; readonly digest: string | null } | null;
  readonly step: number;
  readonly directoryKey: string;
  readonly digest: string;
  readonly metrics: Metrics;
  /** Points of the step before, which its rollouts were drawn from. */
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
  /** In the order asked for, without duplicates. */
  notFoundSteps: number[];
  /** Directories that nothing refers to any more; one that a live job started from is kept until that job ends. */
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
  /** Default: no request is known. */
  origin?: JobOrigin;
  /** How many jobs may train the model or wait for it, this one included; default: any number. */
  maxLive?: number;
  /** Rewards of the trajectories that it learns from; default: it has none that could be listed. */
  rewards?: GroupRewards;
  /** Digests of the prompts of the same trajectories; default: not known. */
  prompts?: GroupPrompts;
  /** Its weights are kept until the job ends, as by `keepReference`, when the model has that step already. */
  referenceStep?: number | null;
  /** Default: a random UUID. Give one to know the answer before the job exists. */
  id?: string;
  /** Written in the same transaction: a repeat of the request can never make a second job. */
  completes?: IdempotentAnswer;
}

/** Filters of jobs; each that is left out lets all of them through. */
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
  /** E.g. `training_started`, `gradient_step:3`; absent = never a duplicate. */
  dedupeKey?: string;
  /** Points of the model's run by their full names, written in the same transaction: a duplicate adds none. Of `gradient_step` only (asserted). */
  metrics?: Metrics;
  /** Metrics of the job's rollouts by their full names, placed at the step that the job starts from. Otherwise as `metrics`. */
  rolloutMetrics?: Metrics;
  /** The fate of each submitted trajectory, by group; as `metrics` written once. */
  outcomes?: readonly (readonly TrajectoryOutcome[])[];
  /** The tokens that the job's key is charged with, as `metrics` written once; without effect for a job without a key. */
  usage?: NewStepUsage;
  /** The tokens of that gradient step of the job; as `metrics` written once. */
  traces?: { gradientStep: number; traces: readonly NewTokenTrace[]; maxBytes: number };
}

/** A gradient step as usage of the kind `training`. */
export interface NewStepUsage {
  /** 1 for the first step of a job, 0 for the others: a job is one request. */
  readonly numRequests: 0 | 1;
  /** Tokens that the trained ones stand behind. */
  readonly promptTokens: number;
  /** Trained tokens. */
  readonly completionTokens: number;
}

export interface JobOutcome {
  /** Directory key of the new checkpoint, committed before; null = nothing was trained and the start's artifact is shared. */
  directoryKey: string | null;
  /** SHA-256 of the weights; ignored when `directoryKey` is null. */
  digest: string | null;
  metrics: Metrics;
  /** Metrics of the job's rollouts, placed as those of events; of a job without gradient steps only. */
  rolloutMetrics?: Metrics;
  /** Data of the `training_ended` event besides its `step`, that of the checkpoint; any JSON object, default empty. */
  data?: object;
}

export interface FinishedJob {
  job: Job;
  /** Directories that nothing refers to any more: its snapshot, and a start whose checkpoint was deleted while the job ran. */
  directoryKeys: string[];
}

/** `finished`: it had ended before, nothing was changed. */
export type CancelJobResult = ({ kind: 'cancelled' } & FinishedJob) | { kind: 'finished'; job: Job };

/** `done`: the job is now as asked for, also when it was before. `finished`: it had ended, nothing was changed. */
export type JobControlResult = { kind: 'done' | 'finished'; job: Job };

export interface NewLog extends LogCounts {
  modelId: string;
  split: string;
  blobKey: string;
  /** Full names, e.g. `val/reward`. */
  metrics: Metrics;
  /** Rewards of its trajectories; default: none that could be listed. */
  rewards?: GroupRewards;
  /** Digests of the prompts of the same trajectories; default: not known. */
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

/** `isNew` false: the file was there already, and the blob of the input is not needed. */
export interface AddArtifactResult {
  artifact: Artifact;
  isNew: boolean;
}

export interface NewExport {
  modelId: string;
  step: number;
  format: string;
  dtype: string;
  /** How many exports of the model may be queued or running, this one included; default: any number. */
  maxLive?: number;
  /** Default: a random UUID. */
  id?: string;
  /** Default: no request is known. */
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
  /** Directories that nothing refers to any more: the source, when its checkpoint was deleted meanwhile. */
  directoryKeys: string[];
}

export interface NewAdapter {
  entityId: string;
  baseModel: string;
  configKey: string;
  weightsKey: string;
  /** How many uploads of the entity may be open, this one included; default: any number. */
  maxOpen?: number;
  /** Default: a random UUID. */
  id?: string;
  completes?: IdempotentAnswer;
}

export interface CommittedAdapter {
  adapter: Adapter;
  /** The files of the upload. */
  blobKeys: string[];
}

export interface RemovedAdapters {
  directoryKeys: string[];
  /** Adapter versions that no model and no import has any more. */
  digests: string[];
  blobKeys: string[];
}

/**
 * The answer to a request, for a result that is known only in the transaction: it is kept there, so that a repeat can never have the effect
 * again. Undefined: the request had no key.
 */
export type CompletesWith<Result> = (result: Result) => IdempotentAnswer | undefined;

export interface IdempotentAnswer {
  keyId: string;
  key: string;
  /** HTTP status. */
  status: number;
  body: string;
}

/** `mismatch`: the key was used for another request. */
export type IdempotentState =
  | { kind: 'started' }
  | { kind: 'completed'; status: number; body: string }
  | { kind: 'in_progress' }
  | { kind: 'mismatch' };
