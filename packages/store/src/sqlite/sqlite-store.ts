import assert from 'node:assert/strict';
import type { ChoiceRecord, ChoiceRecordLimits, NewChoiceRecord } from '../choice-record.ts';
import type { OrderedPageQuery, Page, PageQuery } from '../page.ts';
import type {
  Adapter,
  ApiKey,
  Artifact,
  Caller,
  Checkpoint,
  ClaimedJob,
  Entity,
  Job,
  JobEvent,
  JobEventType,
  JobStatus,
  Metrics,
  Model,
  ModelExport,
  TrajectoryLog,
  Usage,
  UsageTotal,
} from '../records.ts';
import type {
  AddArtifactResult,
  ArtifactName,
  CancelJobResult,
  CompletesWith,
  CreateModelResult,
  DeleteCheckpointsResult,
  DeleteModelResult,
  ExpiredTrajectories,
  ExportOutcome,
  FindModelResult,
  FinishedExport,
  FinishedJob,
  IdempotentAnswer,
  IdempotentState,
  JobControlResult,
  JobOutcome,
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
} from '../store.ts';
import { commitAdapter, createExport, deleteExport, finishExport, removeAdapters } from './exchange-lifecycle.ts';
import { ChoiceRecordBuffer } from './choice-record-buffer.ts';
import { Database, type DatabaseOptions } from './database.ts';
import {
  cancelJob,
  claimNextJob,
  finishJobFailed,
  finishJobSucceeded,
  keepReference,
  pauseJob,
  resumeJob,
} from './job-lifecycle.ts';
import { createModel, deleteModel } from './model-lifecycle.ts';
import { openTables, type Tables } from './tables.ts';
import { UsageBuffer } from './usage-buffer.ts';

const DELETED_MODEL_LIFETIME_MS = 7 * 24 * 3600 * 1000;

export interface SqliteStoreOptions extends DatabaseOptions {
  /** Milliseconds since the epoch, default `Date.now`. */
  clock?: () => number;
  /** How long records of sampled choices are kept, and how many bytes of them. */
  choiceRecords?: Partial<ChoiceRecordLimits>;
}

/**
 * `Store` in one SQLite file. Several processes may open it; each call is one short transaction on this thread, and waits without blocking it
 * while another process has the lock.
 */
export class SqliteStore implements Store {
  readonly #database: Database;
  readonly #clock: () => number;
  readonly #tables: Tables;
  readonly #usage: UsageBuffer;
  readonly #choiceRecords: ChoiceRecordBuffer;

  /**
   * Opens the file, or makes it with its folder, checks it and brings its schema up to date.
   * @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`, `store.disk_full`
   */
  static async open(path: string, options: SqliteStoreOptions = {}): Promise<SqliteStore> {
    return new SqliteStore(new Database(path, options), options);
  }

  private constructor(database: Database, { clock = Date.now, choiceRecords }: SqliteStoreOptions) {
    this.#database = database;
    this.#clock = clock;
    this.#tables = openTables(database);
    this.#usage = new UsageBuffer(database, clock);
    this.#choiceRecords = new ChoiceRecordBuffer(database, this.#tables, clock, choiceRecords);
  }

  // entities and keys
  async ensureEntity(name: string): Promise<Entity> {
    return this.#database.write(() => this.#tables.keys.ensureEntity(name, this.#clock()));
  }

  async createKey(input: NewKey & { completes?: CompletesWith<ApiKey> }): Promise<ApiKey & { secret: string }> {
    return this.#database.write(() => {
      const { secret, ...key } = this.#tables.keys.create(input, this.#clock());
      this.#complete(input.completes?.(key));
      return { ...key, secret };
    });
  }

  async ensureKey(input: NewKey & { secret: string }): Promise<ApiKey & { numReplaced: number }> {
    return this.#database.write(() => {
      const { keys } = this.#tables;
      const key = keys.ensure(input, this.#clock());
      return { ...key, numReplaced: key.isServiceKey ? keys.revokeServiceKeysBut(key.id, this.#clock()) : 0 };
    });
  }

  async verifyKey(secret: string): Promise<Caller | null> {
    return this.#database.read(() => this.#tables.keys.verify(secret, this.#clock()));
  }

  async getKey(keyId: string): Promise<ApiKey | null> {
    return this.#database.read(() => this.#tables.keys.get(keyId));
  }

  async listKeys(entityId?: string): Promise<ApiKey[]> {
    return this.#database.read(() => this.#tables.keys.list(entityId));
  }

  async revokeKey(keyId: string): Promise<boolean> {
    return this.#database.write(() => this.#tables.keys.revoke(keyId, this.#clock()));
  }

  // models
  async createModel(input: NewModel): Promise<CreateModelResult> {
    return this.#database.write(() => createModel(this.#tables, input, this.#clock()));
  }

  async getModel(modelId: string): Promise<Model | null> {
    return this.#database.read(() => this.#tables.models.get(modelId));
  }

  async findModel(entity: string, project: string, name: string): Promise<Model | null> {
    return this.#database.read(() => this.#tables.models.find(entity, project, name));
  }

  async findModelByName(entity: string, name: string): Promise<FindModelResult> {
    return this.#database.read(() => this.#tables.models.findByName(entity, name));
  }

  async listModels(query: OrderedPageQuery & { entityId?: string; project?: string }): Promise<Page<Model>> {
    return this.#database.read(() => this.#tables.models.list(query));
  }

  async deleteModel(modelId: string, completes?: CompletesWith<DeleteModelResult>): Promise<DeleteModelResult | null> {
    await this.#choiceRecords.flush();
    return this.#database.write(() => {
      this.#choiceRecords.deleteOfModel(modelId);
      return this.#completeWith(deleteModel(this.#tables, modelId, this.#clock()), completes);
    });
  }

  // checkpoints
  async listCheckpoints(query: OrderedPageQuery & { modelId: string }): Promise<Page<Checkpoint>> {
    return this.#database.read(() => this.#tables.checkpoints.list(query));
  }

  async getCheckpoint(modelId: string, step: number): Promise<Checkpoint | null> {
    return this.#database.read(() => this.#tables.checkpoints.get(modelId, step));
  }

  async latestCheckpoint(modelId: string): Promise<Checkpoint | null> {
    return this.#database.read(() => this.#tables.checkpoints.latest(modelId));
  }

  async deleteCheckpoints(
    modelId: string,
    steps: readonly number[],
    completes?: CompletesWith<DeleteCheckpointsResult>,
  ): Promise<DeleteCheckpointsResult> {
    return this.#database.write(() => {
      const now = this.#clock();
      const notFoundSteps: number[] = [];
      const deleted: Checkpoint[] = [];
      for (const step of new Set(steps)) {
        const checkpoint = this.#tables.checkpoints.delete(modelId, step, now);
        if (checkpoint === null) notFoundSteps.push(step);
        else deleted.push(checkpoint);
      }
      const artifactKeys = this.#tables.checkpoints.unreferenced(deleted.map((checkpoint) => checkpoint.artifactKey));
      return this.#completeWith({ deletedCount: deleted.length, notFoundSteps, artifactKeys }, completes);
    });
  }

  async mergeCheckpointMetrics(modelId: string, step: number, metrics: Metrics): Promise<Checkpoint | null> {
    return this.#database.write(() => {
      const checkpoint = this.#tables.checkpoints.get(modelId, step);
      if (checkpoint === null) return null;
      const merged = { ...checkpoint.metrics, ...metrics };
      this.#tables.checkpoints.setMetrics(checkpoint.id, merged);
      return { ...checkpoint, metrics: merged };
    });
  }

  // jobs
  async enqueueJob(input: NewJob): Promise<Job | null> {
    return this.#database.write(() => {
      if (this.#tables.models.get(input.modelId) === null) return null;
      const job = this.#tables.jobs.insert(input, this.#clock());
      const reference = this.#tables.checkpoints.get(input.modelId, input.referenceStep ?? -1);
      if (reference?.artifactKey != null) this.#tables.jobs.setReference(job.id, reference.artifactKey);
      this.#complete(input.completes);
      return job;
    });
  }

  async getJob(jobId: string): Promise<Job | null> {
    return this.#database.read(() => this.#tables.jobs.get(jobId));
  }

  async listJobs(
    query: OrderedPageQuery & { modelId?: string; entityId?: string; status?: JobStatus },
  ): Promise<Page<Job>> {
    return this.#database.read(() => this.#tables.jobs.list(query));
  }

  async claimNextJob(workerId: string, leaseMs: number, now: number = this.#clock()): Promise<ClaimedJob | null> {
    return this.#database.write(() => claimNextJob(this.#tables, workerId, leaseMs, now));
  }

  async renewLease(jobId: string, fencingToken: number, leaseMs: number, now: number = this.#clock()): Promise<void> {
    await this.#database.write(() =>
      this.#tables.jobs.extendLease(this.#tables.jobs.held(jobId, fencingToken).id, now + leaseMs),
    );
  }

  async releaseLease(jobId: string, fencingToken: number): Promise<void> {
    await this.#database.write(() => this.#tables.jobs.requeue(this.#tables.jobs.held(jobId, fencingToken).id, false));
  }

  async appendEvent(
    jobId: string,
    fencingToken: number,
    event: NewEvent,
  ): Promise<{ event: JobEvent; isDuplicate: boolean }> {
    assert(
      event.type !== 'training_ended' && event.type !== 'training_failed',
      `${event.type} is written by finishing the job`,
    );
    return this.#database.write(() => {
      this.#tables.jobs.held(jobId, fencingToken);
      const appended = this.#tables.events.append(
        jobId,
        event.type,
        event.data,
        event.dedupeKey ?? null,
        this.#clock(),
      );
      if (event.type === 'gradient_step' && !appended.isDuplicate) this.#tables.jobs.forgetEarlierAttempts(jobId);
      return appended;
    });
  }

  async finishJobSucceeded(
    jobId: string,
    fencingToken: number,
    outcome: JobOutcome,
  ): Promise<FinishedJob & { checkpoint: Checkpoint }> {
    return this.#database.write(() => finishJobSucceeded(this.#tables, jobId, fencingToken, outcome, this.#clock()));
  }

  async finishJobFailed(jobId: string, fencingToken: number, errorMessage: string): Promise<FinishedJob> {
    return this.#database.write(() => finishJobFailed(this.#tables, jobId, fencingToken, errorMessage, this.#clock()));
  }

  async cancelJob(jobId: string, reason: string): Promise<CancelJobResult | null> {
    return this.#database.write(() => cancelJob(this.#tables, jobId, reason, this.#clock()));
  }

  async pauseJob(jobId: string): Promise<JobControlResult | null> {
    return this.#database.write(() => pauseJob(this.#tables, jobId, this.#clock()));
  }

  async resumeJob(jobId: string): Promise<JobControlResult | null> {
    return this.#database.write(() => resumeJob(this.#tables, jobId));
  }

  async keepReference(
    jobId: string,
    fencingToken: number,
    step: number,
  ): Promise<{ artifactKey: string | null } | null> {
    return this.#database.write(() => keepReference(this.#tables, jobId, fencingToken, step));
  }

  async countEvents(jobId: string, type: JobEventType): Promise<number> {
    return this.#database.read(() => this.#tables.events.count(jobId, type));
  }

  async listEvents(query: PageQuery & { jobId: string; type?: JobEventType }): Promise<Page<JobEvent> | null> {
    return this.#database.read(() =>
      this.#tables.jobs.get(query.jobId) === null ? null : this.#tables.events.list(query),
    );
  }

  // trajectory logs
  async recordLog(input: NewLog): Promise<TrajectoryLog | null> {
    return this.#database.write(() => {
      if (this.#tables.models.get(input.modelId) === null) return null;
      const checkpoint = this.#tables.checkpoints.latest(input.modelId);
      if (checkpoint !== null) {
        // Only what the last log of the split put there goes: `train/…` also holds the metrics of the job itself.
        const replaced = this.#tables.logs.lastMetrics(checkpoint.id, input.split);
        const kept = Object.entries(checkpoint.metrics).filter(([name]) => !(name in replaced));
        this.#tables.checkpoints.setMetrics(checkpoint.id, { ...Object.fromEntries(kept), ...input.metrics });
      }
      const log = this.#tables.logs.insert(input, checkpoint, this.#clock());
      this.#complete(input.completes);
      return log;
    });
  }

  async listLogs(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>> {
    return this.#database.read(() => this.#tables.logs.list(query));
  }

  // artifacts
  async addArtifact(input: NewArtifact & { completes?: CompletesWith<AddArtifactResult> }): Promise<AddArtifactResult> {
    return this.#database.write(() =>
      this.#completeWith(this.#tables.artifacts.add(input, this.#clock()), input.completes),
    );
  }

  async findArtifact(name: ArtifactName, version: number | 'latest'): Promise<Artifact | null> {
    return this.#database.read(() => this.#tables.artifacts.find(name, version));
  }

  async listArtifacts(
    query: OrderedPageQuery & { entityId: string; project?: string; name?: string },
  ): Promise<Page<Artifact>> {
    return this.#database.read(() => this.#tables.artifacts.list(query));
  }

  async deleteArtifact(artifactId: string, completes?: IdempotentAnswer): Promise<boolean> {
    return this.#database.write(() => {
      const isDeleted = this.#tables.artifacts.delete(artifactId, this.#clock());
      if (isDeleted) this.#complete(completes);
      return isDeleted;
    });
  }

  // exports
  async createExport(input: NewExport): Promise<ModelExport | null> {
    return this.#database.write(() => createExport(this.#tables, input, this.#clock()));
  }

  async getExport(exportId: string): Promise<ModelExport | null> {
    return this.#database.read(() => this.#tables.exports.get(exportId));
  }

  async listExports(query: OrderedPageQuery & { modelId: string }): Promise<Page<ModelExport>> {
    return this.#database.read(() => this.#tables.exports.list(query));
  }

  async countLiveExports(modelId: string): Promise<number> {
    return this.#database.read(() => this.#tables.exports.countLive(modelId));
  }

  async claimNextExport(): Promise<ModelExport | null> {
    return this.#database.write(() => this.#tables.exports.claim(this.#clock()));
  }

  async releaseExport(exportId: string, numAttempts: number): Promise<void> {
    await this.#database.write(() => this.#tables.exports.release(exportId, numAttempts));
  }

  async finishExport(exportId: string, numAttempts: number, outcome: ExportOutcome): Promise<FinishedExport | null> {
    return this.#database.write(() => finishExport(this.#tables, exportId, numAttempts, outcome, this.#clock()));
  }

  async deleteExport(exportId: string, completes?: IdempotentAnswer): Promise<{ artifactKeys: string[] } | null> {
    return this.#database.write(() =>
      this.#completeWith(deleteExport(this.#tables, exportId, this.#clock()), () => completes),
    );
  }

  // imported adapters
  async createAdapter(input: NewAdapter): Promise<Adapter> {
    return this.#database.write(() => {
      const adapter = this.#tables.adapters.insert(input, this.#clock());
      this.#complete(input.completes);
      return adapter;
    });
  }

  async getAdapter(adapterId: string): Promise<Adapter | null> {
    return this.#database.read(() => this.#tables.adapters.get(adapterId));
  }

  async listAdapters(query: OrderedPageQuery & { entityId: string }): Promise<Page<Adapter>> {
    return this.#database.read(() => this.#tables.adapters.list(query));
  }

  async commitAdapter(
    adapterId: string,
    content: NonNullable<Adapter['content']>,
  ): Promise<{ adapter: Adapter; blobKeys: string[] } | null> {
    return this.#database.write(() => commitAdapter(this.#tables, adapterId, content, this.#clock()));
  }

  async deleteAdapter(adapterId: string, completes?: IdempotentAnswer): Promise<RemovedAdapters | null> {
    return this.#database.write(() => {
      const adapter = this.#tables.adapters.get(adapterId);
      const removed = adapter === null ? null : removeAdapters(this.#tables, [adapter], this.#clock());
      return this.#completeWith(removed, () => completes);
    });
  }

  async expireAdapterUploads(entityId: string, before: number): Promise<RemovedAdapters> {
    return this.#database.write(() =>
      removeAdapters(this.#tables, this.#tables.adapters.listUploads(entityId, before), this.#clock()),
    );
  }

  // idempotency keys
  async beginIdempotent(request: { keyId: string; key: string; requestHash: string }): Promise<IdempotentState> {
    return this.#database.write(() => this.#tables.idempotency.begin(request, this.#clock()));
  }

  async completeIdempotent(answer: IdempotentAnswer): Promise<void> {
    await this.#database.write(() => this.#tables.idempotency.complete(answer));
  }

  async abandonIdempotent(request: { keyId: string; key: string }): Promise<void> {
    await this.#database.write(() => this.#tables.idempotency.abandon(request));
  }

  // usage
  recordUsage(usage: Usage): void {
    this.#usage.add(usage);
  }

  async sumUsage(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]> {
    await this.#usage.flush();
    return this.#database.read(() => this.#usage.sum(query));
  }

  // records of sampled choices
  recordChoice(record: NewChoiceRecord): string {
    return this.#choiceRecords.add(record);
  }

  async findChoiceRecords(entityId: string, recordIds: readonly string[]): Promise<Map<string, ChoiceRecord>> {
    return this.#choiceRecords.find(entityId, recordIds);
  }

  // upkeep
  async recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }> {
    return this.#database.write(() => {
      this.#tables.exports.requeueAllRunning();
      return {
        numJobs: this.#tables.jobs.requeueAllRunning(),
        numRequests: this.#tables.idempotency.dropInProgress(),
      };
    });
  }

  async purgeExpired(now: number = this.#clock()): Promise<{ numModels: number; numRequests: number }> {
    return this.#database.write(() => {
      this.#choiceRecords.purge(now);
      this.#tables.exports.purge(now - DELETED_MODEL_LIFETIME_MS);
      return {
        numModels: this.#tables.models.purge(now - DELETED_MODEL_LIFETIME_MS),
        numRequests: this.#tables.idempotency.purge(now),
      };
    });
  }

  async expireTrajectories(before: number, limit: number): Promise<ExpiredTrajectories> {
    return this.#database.write(() => {
      const { jobs, logs } = this.#tables;
      const now = this.#clock();
      const ofJobs = jobs.markDataRemoved(before, limit, now);
      const ofLogs = logs.markDataRemoved(before, limit, now);
      const keys = [...new Set([...ofJobs, ...ofLogs])];
      const blobKeys = keys.filter((key) => !jobs.namesData(key) && !logs.namesData(key));
      return { numJobs: ofJobs.length, numLogs: ofLogs.length, blobKeys };
    });
  }

  async mergeUsage(before: number, limit: number): Promise<number> {
    return this.#database.write(() => this.#usage.merge(before, limit));
  }

  async listReferencedKeys(): Promise<{ artifactKeys: string[]; blobKeys: string[] }> {
    return this.#database.read(() => ({
      artifactKeys: this.#tables.checkpoints.listArtifactKeys(),
      blobKeys: [
        ...this.#tables.logs.listAllBlobKeys(),
        ...this.#tables.artifacts.listBlobKeys(),
        ...this.#tables.adapters.listBlobKeys(),
      ],
    }));
  }

  async isNamed(key: string): Promise<boolean> {
    const { artifactKeys, blobKeys } = await this.listReferencedKeys();
    return artifactKeys.includes(key) || blobKeys.includes(key);
  }

  trouble(): string | null {
    return this.#database.trouble;
  }

  async ping(): Promise<void> {
    await this.#database.read(() => this.#database.get('select 1 from entities limit 1'));
  }

  /** Writes pending usage and records, and closes the file; a second call does nothing. */
  async close(): Promise<void> {
    try {
      await this.#usage.flush();
      await this.#choiceRecords.flush();
    } finally {
      this.#database.close();
    }
  }

  /** Keeps the answer to a result other than null, in the transaction that has it. */
  #completeWith<Result>(result: Result, completes: CompletesWith<NonNullable<Result>> | undefined): Result {
    if (result !== null && result !== undefined) this.#complete(completes?.(result));
    return result;
  }

  #complete(answer: IdempotentAnswer | undefined): void {
    if (answer !== undefined) this.#tables.idempotency.complete(answer);
  }
}
