import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type {
  CheckpointSizes,
  CheckpointState,
  CheckpointTotals,
  MarkedCheckpoints,
  RemovedCheckpoints,
} from './contract/checkpoint-retention.ts';
import { StoreError } from './contract/errors.ts';
import type { ChoiceRecord, ChoiceRecordLimits, NewChoiceRecord } from './contract/choice-record.ts';
import type { ConversationLimits, Conversations } from './contract/conversation.ts';
import type { KeptAnswerLimits, KeptAnswers } from './contract/kept-answer.ts';
import type { KeyAnswer, KeyLimits, KeySpending } from './contract/key-limits.ts';
import type { Member, MemberFacts, MemberRole, NewMember } from './contract/member.ts';
import type { OrderedPageQuery, Page, PageQuery } from './contract/page.ts';
import { BEST_BY } from './contract/run.ts';
import type {
  BestCheckpoint,
  FeedItem,
  FeedQuery,
  MetricSeries,
  Series,
  SeriesQuery,
  TrackedRunRecord,
} from './contract/run.ts';
import type {
  Adapter,
  ApiKey,
  Artifact,
  Caller,
  Checkpoint,
  ClaimedJob,
  Entity,
  ImportJob,
  Job,
  JobEvent,
  JobEventType,
  JobKind,
  JobOrigin,
  JobOfKind,
  JobSnapshot,
  Metrics,
  Model,
  ModelExport,
  ModelState,
  NamedStep,
  QueuedJob,
  Session,
  SignIn,
  SignInKind,
  TerminalEventType,
  TrainingJob,
  TrainingJobConfig,
  TrajectoryLog,
  Usage,
  UsageGroup,
  UsagePart,
  UsageTotal,
} from './contract/records.ts';
import type {
  AddArtifactResult,
  AdoptedCheckpoint,
  AdoptResult,
  ArtifactName,
  CancelJobResult,
  CommittedAdapter,
  CreateModelResult,
  DeleteCheckpointsResult,
  DeleteModelResult,
  ExpiredTrajectories,
  ExportOutcome,
  FindModelResult,
  FinishedExport,
  FinishedJob,
  IdempotentState,
  JobControlResult,
  JobFilter,
  JobOutcome,
  KnownKey,
  NewArtifact,
  NewAdapter,
  NewEvent,
  NewExport,
  NewJob,
  NewKey,
  NewLog,
  NewModel,
  RemovedAdapters,
  Store,
} from './contract/store.ts';
import type {
  TokenTrace,
  TrajectoryOutcome,
  TrajectoryQuery,
  TrajectoryRecord,
  TrajectorySummary,
} from './contract/trajectory.ts';
import {
  createExport,
  deleteExport,
  enqueueImport,
  finishExport,
  finishImport,
  removeAdapters,
} from './lifecycles/transfer-lifecycle.ts';
import { ChoiceRecordBuffer } from './buffers/choice-record-buffer.ts';
import { ConversationStore } from './buffers/conversation-store.ts';
import { KeptAnswerStore } from './buffers/kept-answer-store.ts';
import { RequestsInProgress } from './buffers/requests-in-progress.ts';
import type { CompletesWith, IdempotentAnswer } from './contract/idempotent-answer.ts';
import type { Sql, TransactionOptions } from './contract/sql.ts';
import {
  cancelJob,
  claimNextJob,
  enqueueJob,
  finishJobFailed,
  finishJobSucceeded,
  gradientStepTaken,
  keepReference,
  keepSnapshot,
  pauseJob,
  resumeJob,
  TRAINING_JOB_KINDS,
} from './lifecycles/job-lifecycle.ts';
import { dropOptimizers, markCheckpoints, removeCheckpoints } from './lifecycles/checkpoint-retention.ts';
import { spendKeyLimits } from './lifecycles/key-budget.ts';
import { adoptCheckpoint } from './lifecycles/adoption.ts';
import { createModel, deleteModel, sweepDeleted } from './lifecycles/model-lifecycle.ts';
import { type DatabaseCall, MeasuredSql } from './drivers/measured-sql.ts';
import { NO_JOBS } from './tables/job-table.ts';
import { partsOf } from './tables/rows-of.ts';
import type { PlacedOutcome } from './tables/runs/trajectory-table.ts';
import { openTables, type Tables } from './tables/tables.ts';
import { KnownKeys } from './buffers/known-keys.ts';
import { UsageBuffer } from './buffers/usage-buffer.ts';

/**
 * Maximum time between attempts to claim in a transaction: outside of one the database's clock is an
 * estimate, which lags after a suspend of the machine.
 */
const CLAIM_IN_TURN_MS = 10_000;

/** Written only with the end of a job. */
const TERMINAL_EVENT_TYPES: ReadonlySet<string> = new Set<TerminalEventType>([
  'training_ended',
  'training_failed',
  'job_ended',
  'job_failed',
]);
const DELETED_MODEL_LIFETIME_MS = 7 * 24 * 3600 * 1000;
/** Lifetime of the events that the feed refers to. */
const FEED_LIFETIME_MS = DELETED_MODEL_LIFETIME_MS;
/** Rows of a deleted model removed per transaction: about 5 ms. */
const SWEPT_AT_ONCE = 500;
/** Deleted models whose last rows are removed per transaction. */
const MODELS_AT_ONCE = 10;
/**
 * Outcomes of trajectories written per transaction; of more, most are written before the event that reports
 * them.
 */
const OUTCOMES_AT_ONCE = 5_000;
/** A bucket refills within a minute; a debt that lasts longer than this means a limit near zero. */
const UNUSED_BUDGET_LIFETIME_MS = 24 * 3600 * 1000;
/** Lifetime of a trusted reading of the clock, which is read several times per hour. */
const TRUSTED_FOR_MS = 3600 * 1000;
/** Repeated, so it need not wait for the disk. */
const HEARTBEAT: TransactionOptions = { isDurable: false };

export interface SqlStoreOptions {
  /** Milliseconds since the epoch, default `Sql.now`. */
  clock?: () => number;
  /** See `Store.instanceId`. Default: a random UUID, which has no successor. */
  instanceId?: string;
  /** Receives each call of the database. Default: none. */
  onCall?: (call: DatabaseCall) => void;
  /** Time for which keys are used as last read while the database is away, ms. Default 0. */
  outageMs?: number;
  choiceRecords?: Partial<ChoiceRecordLimits>;
  keptAnswers?: Partial<KeptAnswerLimits>;
  conversations?: Partial<ConversationLimits>;
}

/**
 * `Store` on an SQL database that several processes may have open. Each writing call is one short
 * transaction.
 */
export class SqlStore implements Store {
  readonly instanceId: string;
  readonly #sql: Sql;
  readonly #clock: () => number;
  /** Tables for single statements; a transaction has its own. */
  readonly #tables: Tables;
  /** Time of the last claim in a transaction, on the clock of `performance.now()`. */
  #claimedAt = -Infinity;
  /** Last trusted reading of the clock known to this process. */
  #trustedAt: number | null = null;
  readonly #knownKeys: KnownKeys;
  readonly #usage: UsageBuffer;
  readonly #choiceRecords: ChoiceRecordBuffer;
  readonly #conversations: ConversationStore;
  readonly #keptAnswers: KeptAnswerStore;
  readonly #requests: RequestsInProgress;

  /** @param database closed with the store */
  constructor(database: Sql, options: SqlStoreOptions = {}) {
    const {
      clock = () => database.now,
      instanceId = randomUUID(),
      onCall,
      outageMs = 0,
      choiceRecords,
      keptAnswers: limits,
      conversations,
    } = options;
    const sql = onCall === undefined ? database : new MeasuredSql(database, onCall);
    this.instanceId = instanceId;
    this.#sql = sql;
    this.#clock = clock;
    this.#tables = openTables(sql);
    const keys = {
      find: (digest: Buffer, now: number) => this.#tables.keys.find(digest, now),
      version: () => sql.foreignVersion,
      isAway: () => sql.isAway(),
    };
    this.#knownKeys = new KnownKeys(keys, { outageMs });
    this.#usage = new UsageBuffer(sql, clock);
    this.#choiceRecords = new ChoiceRecordBuffer(sql, clock, choiceRecords);
    this.#requests = new RequestsInProgress(sql, clock, instanceId);
    this.#conversations = new ConversationStore(sql, { clock, requests: this.#requests, limits: conversations });
    this.#keptAnswers = new KeptAnswerStore(sql, {
      clock,
      owner: instanceId,
      limits,
      conversations: this.#conversations,
      requests: this.#requests,
    });
  }

  // entities and keys
  async ensureEntity(name: string): Promise<Entity> {
    return this.#write((tables) => tables.keys.ensureEntity(name, this.#clock()));
  }

  async createKey(input: NewKey & { completes?: CompletesWith<ApiKey> }): Promise<ApiKey & { secret: string }> {
    return this.#write(async (tables) => {
      const { secret, ...key } = await tables.keys.create(input, this.#clock());
      await this.#complete(tables, input.completes?.(key));
      return { ...key, secret };
    });
  }

  async ensureKey(input: NewKey & { secret: string }): Promise<ApiKey & { numReplaced: number }> {
    return this.#changeKeys(async (tables) => {
      const { keys } = tables;
      const key = await keys.ensure(input, this.#clock());
      const numReplaced = key.isServiceKey ? await keys.revokeServiceKeysBut(key.id, this.#clock()) : 0;
      if (numReplaced > 0) await tables.signIns.removeOfRevokedKeys();
      return { ...key, numReplaced };
    });
  }

  async verifyKey(secret: string): Promise<Caller | null> {
    return await this.#knownKeys.verify(secret, this.#endsAt());
  }

  async getKey(keyId: string): Promise<ApiKey | null> {
    return await this.#tables.keys.get(keyId);
  }

  async listKeys(entityId?: string): Promise<ApiKey[]> {
    return await this.#tables.keys.list(entityId);
  }

  async setKeyLimits(keyId: string, limits: Partial<KeyLimits>): Promise<ApiKey | null> {
    return this.#changeKeys(async ({ keys }) => {
      const key = await keys.get(keyId);
      if (key === null) return null;
      const changed = { ...key, limits: { ...key.limits, ...limits } };
      await keys.setLimits(keyId, changed.limits);
      return changed;
    });
  }

  async revokeKey(keyId: string): Promise<boolean> {
    const revoke = async (tables: Tables): Promise<boolean> => {
      const isRevoked = await tables.keys.revoke(keyId, this.#clock());
      if (isRevoked) await tables.signIns.removeOfRevokedKeys();
      return isRevoked;
    };
    return this.#changeKeys(revoke, { spendsReserve: true });
  }

  // limits of keys
  async spendKeyLimits(spendings: readonly KeySpending[]): Promise<KeyAnswer[]> {
    const spend = (tables: Tables) =>
      spendKeyLimits(tables, spendings, { processId: this.instanceId, now: this.#clock() });
    return this.#write(spend, { isDurable: false });
  }

  // signed-in browsers
  async openSession(keyId: string): Promise<SignIn> {
    return this.#write((tables) => tables.signIns.create('session', keyId, this.#endsAt()));
  }

  async findSession(secret: string): Promise<Session | null> {
    const { keys, signIns } = this.#tables;
    const now = this.#endsAt();
    const session = await signIns.find('session', secret, now);
    const key = session === null ? null : await keys.get(session.keyId);
    if (session === null || key === null || key.revokedAt !== null) return null;
    const expiresAt = Math.min(session.expiresAt, key.expiresAt ?? Infinity);
    return expiresAt > now ? { key, expiresAt } : null;
  }

  async closeSession(secret: string): Promise<void> {
    if (await this.#hasSignIn('session', secret)) await this.#write(({ signIns }) => signIns.remove('session', secret));
  }

  async createSignInLink(keyId: string): Promise<SignIn> {
    return this.#write((tables) => tables.signIns.create('link', keyId, this.#endsAt()));
  }

  async redeemSignInLink(secret: string): Promise<string | null> {
    if (!(await this.#hasSignIn('link', secret))) return null;
    return this.#write(async ({ signIns }) => {
      const link = await signIns.find('link', secret, this.#endsAt());
      return link !== null && (await signIns.remove('link', secret)) ? link.keyId : null;
    });
  }

  /** Runs before any write, so that requests with invented secrets do not block writers. */
  async #hasSignIn(kind: SignInKind, secret: string): Promise<boolean> {
    return (await this.#tables.signIns.find(kind, secret, this.#endsAt())) !== null;
  }

  // models
  async createModel(input: NewModel): Promise<CreateModelResult> {
    return this.#write(async (tables) =>
      this.#completeWith(tables, await createModel(tables, input, this.#clock()), ({ kind }) =>
        kind === 'created' ? input.completes : undefined,
      ),
    );
  }

  async getModel(modelId: string): Promise<Model | null> {
    return await this.#tables.models.get(modelId);
  }

  async findModel(entity: string, project: string, name: string): Promise<Model | null> {
    return await this.#tables.models.find(entity, project, name);
  }

  async findModelByName(entity: string, name: string): Promise<FindModelResult> {
    return await this.#tables.models.findByName(entity, name);
  }

  async listModels(query: OrderedPageQuery & { entityId?: string; project?: string }): Promise<Page<Model>> {
    return await this.#tables.models.list(query);
  }

  async getModelStates(modelIds: readonly string[]): Promise<ReadonlyMap<string, ModelState>> {
    const { models, checkpoints, jobs, metrics } = this.#tables;
    const latest = await checkpoints.latestOf(modelIds);
    const rewards = await metrics.last(modelIds, 'train/reward');
    const best = await metrics.best(modelIds, BEST_BY);
    const liveJobs = await jobs.countStates(modelIds);
    const states = new Map<string, ModelState>();
    for (const id of await models.whichExist(modelIds))
      states.set(id, {
        latest: latest.get(id)?.latest ?? null,
        numCheckpoints: latest.get(id)?.numCheckpoints ?? 0,
        reward: rewards.get(id) ?? null,
        best: best.get(id) ?? null,
        jobs: liveJobs.get(id) ?? NO_JOBS,
      });
    return states;
  }

  async deleteModel(modelId: string, completes?: CompletesWith<DeleteModelResult>): Promise<DeleteModelResult | null> {
    await this.#choiceRecords.flush();
    const deleted = await this.#write(async (tables) => {
      await this.#choiceRecords.deleteOfModel(tables, modelId);
      await this.#keptAnswers.deleteOfModel(tables, modelId);
      return await this.#completeWith(tables, await deleteModel(tables, modelId, this.#clock()), completes);
    });
    // The model is deleted even if this fails; `purgeExpired` removes the rest.
    if (deleted !== null) await this.#sweepDeleted().catch(() => {});
    return deleted;
  }

  /** Removes rows in parts, so that others can write in between. */
  async #sweepDeleted(): Promise<void> {
    const sweep = (tables: Tables) => sweepDeleted(tables, SWEPT_AT_ONCE);
    while (await this.#write(sweep, { isDurable: false })) await nextTurn();
  }

  // checkpoints
  async listCheckpoints(query: OrderedPageQuery & { modelId: string }): Promise<Page<Checkpoint>> {
    return await this.#tables.checkpoints.list(query);
  }

  async getCheckpoint(modelId: string, step: number): Promise<Checkpoint | null> {
    return await this.#tables.checkpoints.get(modelId, step);
  }

  async latestCheckpoint(modelId: string): Promise<Checkpoint | null> {
    return await this.#tables.checkpoints.latest(modelId);
  }

  async newestVersions(modelId: string, limit: number): Promise<ReadonlyMap<string, string>> {
    return await this.#tables.checkpoints.newestVersions(modelId, limit);
  }

  async rolloutsBeganAt(modelId: string, step: number): Promise<number> {
    return await this.#tables.checkpoints.lastSupervised(modelId, step);
  }

  async deleteCheckpoints(
    modelId: string,
    steps: readonly number[],
    completes?: CompletesWith<DeleteCheckpointsResult>,
  ): Promise<DeleteCheckpointsResult> {
    return this.#write(async (tables) => {
      const now = this.#clock();
      const wanted = new Set(steps);
      const deleted = await tables.checkpoints.delete(modelId, wanted, now);
      const deletedSteps = new Set(deleted.map(({ step }) => step));
      const notFoundSteps = [...wanted].filter((step) => !deletedSteps.has(step));
      const model = deleted.length === 0 ? null : await tables.models.get(modelId);
      if (model !== null) {
        const data = { steps: [...deletedSteps] };
        await tables.feed.add({ type: 'checkpoints_deleted', entityId: model.entityId, modelId, data }, now);
      }
      const directoryKeys = await tables.checkpoints.unreferenced(deleted.map((checkpoint) => checkpoint.directoryKey));
      const digests = await tables.checkpoints.unusedDigests(deleted.map((checkpoint) => checkpoint.digest));
      return await this.#completeWith(
        tables,
        { deletedCount: deleted.length, notFoundSteps, directoryKeys, digests },
        completes,
      );
    });
  }

  async mergeCheckpointMetrics(modelId: string, step: number, metrics: Metrics): Promise<Checkpoint | null> {
    return this.#write(async (tables) => {
      const checkpoint = await tables.checkpoints.get(modelId, step);
      if (checkpoint === null) return null;
      const merged = { ...checkpoint.metrics, ...metrics };
      await tables.checkpoints.setMetrics(checkpoint.id, merged);
      return { ...checkpoint, metrics: merged };
    });
  }

  // which checkpoints are kept
  async listCheckpointStates(modelId: string): Promise<CheckpointState[]> {
    return await this.#tables.retention.list(modelId);
  }

  async listModelsTrainedSince(at: number): Promise<string[]> {
    return await this.#tables.retention.listModelsTrainedSince(at);
  }

  async setCheckpointSizes(directoryKey: string, sizes: CheckpointSizes): Promise<void> {
    await this.#write(({ retention }) => retention.setSizes(directoryKey, sizes), HEARTBEAT);
  }

  async holdCheckpoint(modelId: string, step: number, until: number): Promise<void> {
    await this.#write(({ retention }) => retention.hold(modelId, step, until), HEARTBEAT);
  }

  async markCheckpoints(
    modelId: string,
    steps: readonly number[],
    isKept: boolean,
    completes?: CompletesWith<MarkedCheckpoints>,
  ): Promise<MarkedCheckpoints> {
    return this.#write(async (tables) => {
      const wanted = { steps: new Set(steps), isKept };
      return await this.#completeWith(tables, await markCheckpoints(tables, modelId, wanted, this.#clock()), completes);
    });
  }

  async removeCheckpoints(modelId: string, steps: readonly number[]): Promise<RemovedCheckpoints> {
    return this.#write((tables) => removeCheckpoints(tables, modelId, new Set(steps), this.#clock()));
  }

  async dropOptimizers(modelId: string, steps: readonly number[]): Promise<string[]> {
    return this.#write((tables) => dropOptimizers(tables, modelId, new Set(steps), this.#clock()));
  }

  async isOptimizerDropped(directoryKey: string): Promise<boolean> {
    return await this.#tables.retention.isOptimizerDropped(directoryKey);
  }

  async forgetRemoved(ids: readonly string[]): Promise<void> {
    await this.#write(async ({ retention }) => {
      for (const id of ids) await retention.forget(id);
    });
  }

  async sumCheckpoints(): Promise<CheckpointTotals> {
    return await this.#tables.retention.sum();
  }

  // jobs
  async enqueueJob(input: NewJob): Promise<TrainingJob | null> {
    return this.#write(async (tables) =>
      this.#completeWith(tables, await enqueueJob(tables, input, this.#clock()), () => input.completes),
    );
  }

  async getJob(jobId: string): Promise<Job | null> {
    return await this.#tables.jobs.get(jobId);
  }

  async listJobs(query: OrderedPageQuery & JobFilter): Promise<Page<TrainingJob>> {
    return await this.#tables.jobs.list(query);
  }

  async listQueue(query: { entityId?: string; limit: number }): Promise<QueuedJob[]> {
    return await this.#tables.jobs.listQueue(query);
  }

  async claimNextJob<Kind extends JobKind = TrainingJobConfig>(
    workerId: string,
    leaseMs: number,
    kinds: readonly Kind[] = TRAINING_JOB_KINDS as readonly JobKind[] as readonly Kind[],
    baseModels: readonly string[] | null = null,
  ): Promise<ClaimedJob<JobOfKind<Kind>> | null> {
    const wanted = { kinds, baseModels };
    // Without work a claim does not block writers, with any number of processes.
    const isFresh = performance.now() < this.#claimedAt + CLAIM_IN_TURN_MS;
    if (isFresh && !(await this.#tables.jobs.hasClaimable(wanted, this.#clock()))) return null;
    this.#claimedAt = performance.now();
    // Reads the time within the transaction: the wait for it may be long, and the clock is the database's.
    const claimed = await this.#write((tables) => claimNextJob(tables, { workerId, leaseMs }, wanted, this.#clock()));
    return claimed as ClaimedJob<JobOfKind<Kind>> | null;
  }

  async renewLease(jobId: string, fencingToken: number, leaseMs: number, now?: number): Promise<void> {
    await this.#write(async (tables) => {
      const { id } = await tables.jobs.held(jobId, fencingToken);
      await tables.jobs.extendLease(id, (now ?? this.#clock()) + leaseMs);
    });
  }

  async releaseLease(jobId: string, fencingToken: number): Promise<void> {
    await this.#write(
      async (tables) => await tables.jobs.requeue((await tables.jobs.held(jobId, fencingToken)).id, false),
    );
  }

  async appendEvent(
    jobId: string,
    fencingToken: number,
    event: NewEvent,
  ): Promise<{ event: JobEvent; isDuplicate: boolean }> {
    assert(!TERMINAL_EVENT_TYPES.has(event.type), `${event.type} is written only when the job finishes`);
    const hasMetrics = event.metrics !== undefined || event.rolloutMetrics !== undefined;
    assert(!hasMetrics || event.type === 'gradient_step', 'only gradient steps have metrics');
    const outcomes = placedOutcomes(event.outcomes ?? []);
    if (outcomes.length > OUTCOMES_AT_ONCE && !(await this.#tables.events.has(jobId, event.dedupeKey ?? null)))
      for (const some of partsOf(outcomes.splice(OUTCOMES_AT_ONCE), OUTCOMES_AT_ONCE))
        await this.#write(async (tables) => {
          await tables.jobs.held(jobId, fencingToken);
          await tables.trajectories.setOutcomes(jobId, some);
        });
    return this.#write(async (tables) => {
      const held = await tables.jobs.held(jobId, fencingToken);
      const { type, data, dedupeKey = null } = event;
      const appended = await tables.events.append(jobId, { type, data, dedupeKey }, this.#clock());
      if (event.type === 'gradient_step' && !appended.isDuplicate)
        await gradientStepTaken(tables, held, event, this.#clock());
      if (!appended.isDuplicate) await tables.trajectories.setOutcomes(jobId, outcomes);
      if (event.traces !== undefined && !appended.isDuplicate) {
        const { gradientStep, traces, maxBytes } = event.traces;
        await tables.trajectories.addTraces(jobId, gradientStep, traces, { maxBytes, now: this.#clock() });
      }
      return appended;
    });
  }

  async finishJobSucceeded(
    jobId: string,
    fencingToken: number,
    outcome: JobOutcome,
  ): Promise<FinishedJob & { checkpoint: Checkpoint }> {
    return this.#write((tables) => finishJobSucceeded(tables, { jobId, fencingToken }, outcome, this.#clock()));
  }

  async finishJobFailed(
    jobId: string,
    fencingToken: number,
    errorMessage: string,
    data: object = {},
  ): Promise<FinishedJob> {
    const failure = { errorMessage, data };
    return this.#write((tables) => finishJobFailed(tables, { jobId, fencingToken }, failure, this.#clock()));
  }

  async cancelJob(
    jobId: string,
    reason: string,
    completes?: CompletesWith<CancelJobResult>,
  ): Promise<CancelJobResult | null> {
    return this.#write(async (tables) =>
      this.#completeWith(tables, await cancelJob(tables, jobId, reason, this.#clock()), completes),
    );
  }

  async pauseJob(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null> {
    return this.#write(async (tables) =>
      this.#completeWith(tables, await pauseJob(tables, jobId, this.#clock()), completes),
    );
  }

  async resumeJob(jobId: string, completes?: CompletesWith<JobControlResult>): Promise<JobControlResult | null> {
    return this.#write(async (tables) =>
      this.#completeWith(tables, await resumeJob(tables, jobId, this.#clock()), completes),
    );
  }

  async keepReference(
    jobId: string,
    fencingToken: number,
    step: number,
  ): Promise<{ directoryKey: string | null } | null> {
    return this.#write((tables) => keepReference(tables, jobId, fencingToken, step));
  }

  async keepSnapshot(jobId: string, fencingToken: number, snapshot: JobSnapshot): Promise<{ replacedKeys: string[] }> {
    return this.#write((tables) => keepSnapshot(tables, jobId, fencingToken, snapshot));
  }

  async countEvents(jobId: string, type: JobEventType): Promise<number> {
    return await this.#tables.events.count(jobId, type);
  }

  async listEvents(query: PageQuery & { jobId: string; type?: JobEventType }): Promise<Page<JobEvent> | null> {
    const { jobs, events } = this.#tables;
    return (await jobs.get(query.jobId)) === null ? null : await events.list(query);
  }

  // runs
  async listSeries(modelId: string): Promise<MetricSeries[]> {
    return await this.#tables.metrics.list(modelId);
  }

  async bestCheckpoint(modelId: string): Promise<BestCheckpoint | null> {
    return (await this.#tables.metrics.best([modelId], BEST_BY)).get(modelId) ?? null;
  }

  async readSeries(query: SeriesQuery): Promise<Series[]> {
    return await this.#tables.metrics.read(query);
  }

  async listFeed(query: FeedQuery): Promise<FeedItem[]> {
    return await this.#tables.feed.list(query);
  }

  async lastFeedPosition(): Promise<number> {
    return await this.#tables.feed.lastPosition();
  }

  // external trackers
  async getTrackerPosition(tracker: string): Promise<number | null> {
    return await this.#tables.trackers.position(tracker);
  }

  async advanceTracker(tracker: string, position: number, gradientSteps: ReadonlyMap<string, number>): Promise<void> {
    await this.#write((tables) => tables.trackers.advance(tracker, position, gradientSteps));
  }

  async getTrackedRun(tracker: string, modelId: string): Promise<TrackedRunRecord | null> {
    return await this.#tables.trackers.get(tracker, modelId);
  }

  async setTrackedRun(tracker: string, modelId: string, run: TrackedRunRecord | null): Promise<void> {
    await this.#write((tables) => tables.trackers.set(tracker, modelId, run));
  }

  // trajectories
  async listTrajectories(query: TrajectoryQuery): Promise<Page<TrajectorySummary>> {
    return await this.#tables.trajectories.list(query);
  }

  async getTrajectory(trajectoryId: string): Promise<TrajectoryRecord | null> {
    return await this.#tables.trajectories.get(trajectoryId);
  }

  async listTokenTraces(trajectoryId: string): Promise<TokenTrace[]> {
    return await this.#tables.trajectories.listTraces(trajectoryId);
  }

  // trajectory logs
  async recordLog(input: NewLog): Promise<TrajectoryLog | null> {
    return this.#write(async (tables) => {
      const model = await tables.models.get(input.modelId);
      if (model === null) return null;
      const checkpoint = await tables.checkpoints.latest(input.modelId);
      if (checkpoint !== null) {
        // Removes only the metrics of the split's last log: `train/…` also holds those of the job itself.
        const replaced = await tables.logs.lastMetrics(checkpoint.id, input.split);
        const kept = Object.entries(checkpoint.metrics).filter(([name]) => !(name in replaced));
        await tables.checkpoints.setMetrics(checkpoint.id, { ...Object.fromEntries(kept), ...input.metrics });
      }
      const now = this.#clock();
      const log = await tables.logs.insert(input, checkpoint, now);
      const { modelId, split, metrics, numTrajectories } = input;
      const step = checkpoint?.step ?? model.nextStep - 1;
      await tables.metrics.append(modelId, metrics, { step, gradientStep: null }, now);
      const set = { id: log.id, modelId, jobId: null, split, step };
      await tables.trajectories.insert(set, input.rewards ?? [], input.prompts ?? []);
      const data = { log_id: log.id, split, step, num_trajectories: numTrajectories, metrics };
      await tables.feed.add({ type: 'log_recorded', entityId: model.entityId, modelId, data }, now);
      await this.#complete(tables, input.completes);
      return log;
    });
  }

  async listLogs(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>> {
    return await this.#tables.logs.list(query);
  }

  // artifacts
  async addArtifact(input: NewArtifact & { completes?: CompletesWith<AddArtifactResult> }): Promise<AddArtifactResult> {
    return this.#write(
      async (tables) =>
        await this.#completeWith(tables, await tables.artifacts.add(input, this.#clock()), input.completes),
    );
  }

  async findArtifact(name: ArtifactName, version: number | 'latest'): Promise<Artifact | null> {
    return await this.#tables.artifacts.find(name, version);
  }

  async listArtifacts(
    query: OrderedPageQuery & { entityId: string; project?: string; name?: string },
  ): Promise<Page<Artifact>> {
    return await this.#tables.artifacts.list(query);
  }

  async deleteArtifact(artifactId: string, completes?: IdempotentAnswer): Promise<boolean> {
    return this.#write(async (tables) => {
      const isDeleted = await tables.artifacts.delete(artifactId, this.#clock());
      if (isDeleted) await this.#complete(tables, completes);
      return isDeleted;
    });
  }

  // exports
  async createExport(input: NewExport): Promise<ModelExport | null> {
    return this.#write(async (tables) =>
      this.#completeWith(tables, await createExport(tables, input, this.#clock()), () => input.completes),
    );
  }

  async getExport(exportId: string): Promise<ModelExport | null> {
    return await this.#tables.exports.get(exportId);
  }

  async listExports(query: OrderedPageQuery & { modelId: string }): Promise<Page<ModelExport>> {
    return await this.#tables.exports.list(query);
  }

  async finishExport(exportId: string, fencingToken: number, outcome: ExportOutcome): Promise<FinishedExport> {
    return this.#write((tables) => finishExport(tables, { jobId: exportId, fencingToken }, outcome, this.#clock()));
  }

  async deleteExport(exportId: string, completes?: IdempotentAnswer): Promise<{ directoryKeys: string[] } | null> {
    return this.#write(
      async (tables) =>
        await this.#completeWith(tables, await deleteExport(tables, exportId, this.#clock()), () => completes),
    );
  }

  // imported adapters
  async createAdapter(input: NewAdapter): Promise<Adapter> {
    return this.#write(async (tables) => {
      const { entityId, maxOpen = Infinity } = input;
      const numOpen = maxOpen === Infinity ? 0 : await tables.adapters.countUploads(entityId);
      if (numOpen >= maxOpen) throw new StoreError('store.queue_full', `${numOpen} uploads of adapters are open`);
      const adapter = await tables.adapters.insert(input, this.#clock());
      await tables.announcedKeys.learn([input.configKey, input.weightsKey], this.#clock());
      await this.#complete(tables, input.completes);
      return adapter;
    });
  }

  async getAdapter(adapterId: string): Promise<Adapter | null> {
    return await this.#tables.adapters.get(adapterId);
  }

  async listAdapters(query: OrderedPageQuery & { entityId: string }): Promise<Page<Adapter>> {
    return await this.#tables.adapters.list(query);
  }

  async enqueueImport(
    adapterId: string,
    options: { maxLive?: number; origin?: JobOrigin } = {},
  ): Promise<ImportJob | null> {
    return this.#write((tables) => enqueueImport(tables, adapterId, options, this.#clock()));
  }

  async finishImport(
    jobId: string,
    fencingToken: number,
    content: NonNullable<Adapter['content']>,
  ): Promise<CommittedAdapter> {
    return this.#write((tables) => finishImport(tables, { jobId, fencingToken }, content, this.#clock()));
  }

  async deleteAdapter(adapterId: string, completes?: IdempotentAnswer): Promise<RemovedAdapters | null> {
    return this.#write(async (tables) => {
      const adapter = await tables.adapters.get(adapterId);
      const removed = adapter === null ? null : await removeAdapters(tables, [adapter], this.#clock());
      return await this.#completeWith(tables, removed, () => completes);
    });
  }

  async expireAdapterUploads(entityId: string, before: number): Promise<RemovedAdapters> {
    return this.#write(
      async (tables) =>
        await removeAdapters(tables, await tables.adapters.listUploads(entityId, before), this.#clock()),
    );
  }

  // idempotency keys
  async beginIdempotent(request: { keyId: string; key: string; requestHash: string }): Promise<IdempotentState> {
    return await this.#requests.begin(request);
  }

  async completeIdempotent(answer: IdempotentAnswer): Promise<void> {
    await this.#requests.complete(answer);
  }

  async abandonIdempotent(request: { keyId: string; key: string }): Promise<boolean> {
    return await this.#requests.abandon(request);
  }

  // usage
  recordUsage(usage: Usage): Promise<void> {
    return this.#usage.add(usage);
  }

  async sumUsage(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]> {
    await this.#usage.flush();
    return await this.#tables.usage.sum(query);
  }

  async groupUsage(query: {
    entityId: string;
    by: readonly UsagePart[];
    from: number;
    to: number;
    limit: number;
  }): Promise<UsageGroup[]> {
    await this.#usage.flush();
    return await this.#tables.usage.group(query);
  }

  recordChoice(record: NewChoiceRecord): Promise<string> {
    return this.#choiceRecords.add(record);
  }

  async findChoiceRecords(entityId: string, recordIds: readonly string[]): Promise<Map<string, ChoiceRecord>> {
    return this.#choiceRecords.find(entityId, recordIds);
  }

  // answers kept for clients
  get keptAnswers(): KeptAnswers {
    return this.#keptAnswers;
  }

  get conversations(): Conversations {
    return this.#conversations;
  }

  // parts of a service
  async registerMember(member: NewMember, leaseMs: number): Promise<void> {
    // After a power failure it registers again.
    await this.#write(({ members }) => members.put(this.instanceId, member, leaseMs, this.#clock()), HEARTBEAT);
  }

  async renewMember(role: MemberRole, facts: MemberFacts, leaseMs: number): Promise<boolean> {
    return this.#write(
      ({ members }) => members.renew(this.instanceId, role, facts, this.#clock() + leaseMs),
      HEARTBEAT,
    );
  }

  async listMembers(): Promise<Member[]> {
    return await this.#tables.members.list(this.#clock());
  }

  async removeMember(role: MemberRole): Promise<void> {
    await this.#write(({ members }) => members.remove(this.instanceId, role), HEARTBEAT);
  }

  // upkeep
  async recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }> {
    return this.#write(async (tables) => {
      this.#trustedAt = await tables.trustedClock.at();
      await tables.announcedKeys.releaseOf(this.instanceId);
      await tables.keyBudgets.removeOf(this.instanceId);
      await tables.keptAnswers.releaseOf(this.instanceId);
      return {
        numJobs: await tables.jobs.requeueHeldBy(this.instanceId),
        numRequests: await tables.idempotency.dropInProgress(this.instanceId),
      };
    });
  }

  async purgeExpired(now: number = this.#clock()): Promise<{ numModels: number; numRequests: number }> {
    await this.#sweepDeleted();
    const numRequests = await this.#write(async (tables) => {
      await this.#choiceRecords.purge(tables, now);
      await tables.signIns.purge(now);
      await tables.members.purge(now);
      await tables.keyBudgets.purge(now, now - UNUSED_BUDGET_LIFETIME_MS);
      await tables.feed.purge(now - FEED_LIFETIME_MS);
      return await tables.idempotency.purge(now);
    });
    await this.#keptAnswers.purge(now);
    await this.#conversations.purge(now);
    let numModels = 0;
    for (let numPurged = MODELS_AT_ONCE; numPurged === MODELS_AT_ONCE; numModels += numPurged)
      numPurged = await this.#write(({ models }) => models.purge(now - DELETED_MODEL_LIFETIME_MS, MODELS_AT_ONCE));
    await this.#sql.reclaimSpace();
    return { numModels, numRequests };
  }

  async expireTrajectories(before: number, limit: number): Promise<ExpiredTrajectories> {
    return this.#write(async (tables) => {
      const { jobs, logs } = tables;
      const now = this.#clock();
      const ofJobs = await jobs.data.markRemoved(before, limit, now);
      const ofLogs = await logs.data.markRemoved(before, limit - ofJobs.length, now);
      await tables.trajectories.expireTraces(before, limit);
      const blobKeys: string[] = [];
      for (const key of new Set([...ofJobs, ...ofLogs]))
        if (!(await jobs.data.has(key)) && !(await logs.data.has(key))) blobKeys.push(key);
      return { numJobs: ofJobs.length, numLogs: ofLogs.length, blobKeys };
    });
  }

  async countData(removedSince: number): Promise<{ numKept: number; numRemoved: number }> {
    const { jobs, logs } = this.#tables;
    const counts = await Promise.all([jobs.data.count(removedSince), logs.data.count(removedSince)]);
    return {
      numKept: counts.reduce((sum, { numKept }) => sum + numKept, 0),
      numRemoved: counts.reduce((sum, { numRemoved }) => sum + numRemoved, 0),
    };
  }

  async mergeUsage(before: number, limit: number): Promise<number> {
    return this.#write((tables) => tables.usage.merge(before, limit));
  }

  async listReferencedKeys(): Promise<{ directoryKeys: string[]; blobKeys: string[] }> {
    return {
      directoryKeys: await this.#tables.checkpoints.listDirectoryKeys(),
      blobKeys: await this.#tables.logs.listBlobKeys(),
    };
  }

  async announceKey(key: string): Promise<void> {
    const announce = (tables: Tables) => tables.announcedKeys.add(key, this.instanceId, this.#clock());
    // After a power failure there is no other process to inform.
    await this.#write(announce, { isDurable: false });
  }

  async listAnnouncedKeys(): Promise<string[]> {
    return await this.#tables.announcedKeys.listProtected(this.#clock());
  }

  async listKnownKeys(): Promise<KnownKey[]> {
    return await this.#tables.announcedKeys.listKnown();
  }

  async learnNamedKeys(): Promise<void> {
    await this.#write(({ announcedKeys }) => announcedKeys.learnNamed(this.#clock()));
  }

  async setOrphans(keys: readonly string[]): Promise<void> {
    await this.#write(({ announcedKeys }) => announcedKeys.setOrphans(keys, this.#clock()));
  }

  async forgetKeys(keys: readonly string[]): Promise<void> {
    await this.#write(({ announcedKeys }) => announcedKeys.forget(keys));
  }

  async trustedClock(): Promise<number | null> {
    this.#trustedAt = await this.#tables.trustedClock.at();
    return this.#trustedAt;
  }

  ageClock(): number {
    return Math.min(this.#clock(), (this.#trustedAt ?? Infinity) + TRUSTED_FOR_MS);
  }

  async trustClock(at: number): Promise<void> {
    await this.#write(({ trustedClock }) => trustedClock.set(at), HEARTBEAT);
    this.#trustedAt = at;
  }

  async adoptCheckpoint(checkpoint: AdoptedCheckpoint): Promise<AdoptResult> {
    return this.#write((tables) => adoptCheckpoint(tables, checkpoint, this.#clock()));
  }

  async isNamed(key: string): Promise<boolean> {
    return (await this.#tables.checkpoints.refersTo(key)) || (await this.#tables.logs.refersTo(key));
  }

  async unusedDigests(digests: readonly string[]): Promise<string[]> {
    return await this.#tables.checkpoints.unusedDigests(digests);
  }

  async stepsOf(digests: readonly string[]): Promise<NamedStep[]> {
    return await this.#tables.checkpoints.stepsOf(digests);
  }

  async claimBlobs(id: string): Promise<string> {
    return this.#write(async (tables) => await tables.blobPlaces.claim(id));
  }

  async blobsId(): Promise<string | null> {
    return await this.#tables.blobPlaces.id();
  }

  watchFeed(wake: () => void): () => void {
    return this.#sql.watchFeed(wake);
  }

  now(): number {
    return this.#clock();
  }

  trouble(): string | null {
    return this.#sql.trouble;
  }

  numLostConnections(): number {
    return this.#sql.numLostConnections;
  }

  isAway(): Promise<boolean> {
    return this.#sql.isAway();
  }

  async ping(): Promise<void> {
    await this.#sql.query('select 1 from entities limit 1', []);
  }

  /** Writes pending usage and records, and closes the database. A second call does nothing. */
  async close(): Promise<void> {
    this.#requests.close();
    try {
      await this.#usage.flush();
      await this.#choiceRecords.flush();
    } finally {
      await this.#sql.close();
    }
  }

  /**
   * Time by which keys, sessions and links expire: a clock that is set back makes none of them valid again.
   */
  #endsAt(): number {
    return Math.max(this.#clock(), this.#trustedAt ?? 0);
  }

  /** Clears the cache also after a failure, because the commit may have happened. */
  async #changeKeys<Result>(body: (tables: Tables) => Promise<Result>, options?: TransactionOptions): Promise<Result> {
    try {
      return await this.#write(body, options);
    } finally {
      this.#knownKeys.changed();
    }
  }

  #write<Result>(body: (tables: Tables) => Promise<Result>, options?: TransactionOptions): Promise<Result> {
    return this.#sql.transaction((queries) => body(openTables(queries)), options);
  }

  /** Keeps the answer to a result other than null, in the same transaction. */
  async #completeWith<Result>(
    tables: Tables,
    result: Result,
    completes: CompletesWith<NonNullable<Result>> | undefined,
  ): Promise<Result> {
    if (result !== null && result !== undefined) await this.#complete(tables, completes?.(result));
    return result;
  }

  async #complete(tables: Tables, answer: IdempotentAnswer | undefined): Promise<void> {
    if (answer !== undefined) await this.#requests.completeIn(tables, answer);
  }
}

/** Outcomes in the order of the groups. */
function placedOutcomes(groups: readonly (readonly TrajectoryOutcome[])[]): PlacedOutcome[] {
  return groups.flatMap((group, groupIndex) =>
    group.map((outcome, trajectoryIndex) => ({ groupIndex, trajectoryIndex, ...outcome })),
  );
}
