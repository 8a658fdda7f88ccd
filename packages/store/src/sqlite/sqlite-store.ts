import assert from 'node:assert/strict';
import type { OrderedPageQuery, Page, PageQuery } from '../page.ts';
import type { ApiKey, Caller, Checkpoint, ClaimedJob, Entity, Job, JobEvent, JobStatus, Metrics, Model, TrajectoryLog, Usage, UsageTotal } from '../records.ts';
import type {
  CancelJobResult, CreateModelResult, DeleteCheckpointsResult, DeleteModelResult, FindModelResult, IdempotentAnswer, IdempotentState, JobOutcome, NewEvent,
  NewJob, NewKey, NewLog, NewModel, Store,
} from '../store.ts';
import { CheckpointTable } from './checkpoint-table.ts';
import { Database, type DatabaseOptions } from './database.ts';
import { EventTable } from './event-table.ts';
import { IdempotencyTable } from './idempotency-table.ts';
import { JobTable } from './job-table.ts';
import { KeyTable } from './key-table.ts';
import { LogTable } from './log-table.ts';
import { ModelTable } from './model-table.ts';
import { UsageBuffer } from './usage-buffer.ts';

const DELETED_MODEL_LIFETIME_MS = 7 * 24 * 3600 * 1000;

export interface SqliteStoreOptions extends DatabaseOptions {
  /** Milliseconds since the epoch, default `Date.now`. */
  clock?: () => number;
}

/** `Store` in one SQLite file. Several processes may open it; each call is one short synchronous transaction on this thread. */
export class SqliteStore implements Store {
  readonly #database: Database;
  readonly #clock: () => number;
  readonly #keys: KeyTable;
  readonly #models: ModelTable;
  readonly #checkpoints: CheckpointTable;
  readonly #jobs: JobTable;
  readonly #events: EventTable;
  readonly #logs: LogTable;
  readonly #idempotency: IdempotencyTable;
  readonly #usage: UsageBuffer;

  /**
   * Opens the file, or makes it with its folder, checks it and brings its schema up to date.
   * @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`, `store.disk_full`
   */
  static async open(path: string, options: SqliteStoreOptions = {}): Promise<SqliteStore> {
    return new SqliteStore(new Database(path, options), options.clock ?? Date.now);
  }

  private constructor(database: Database, clock: () => number) {
    this.#database = database;
    this.#clock = clock;
    this.#keys = new KeyTable(database);
    this.#models = new ModelTable(database);
    this.#checkpoints = new CheckpointTable(database);
    this.#jobs = new JobTable(database);
    this.#events = new EventTable(database);
    this.#logs = new LogTable(database);
    this.#idempotency = new IdempotencyTable(database);
    this.#usage = new UsageBuffer(database, clock);
  }

  // entities and keys
  async ensureEntity(name: string): Promise<Entity> {
    return this.#database.write(() => this.#keys.ensureEntity(name, this.#clock()));
  }

  async createKey(input: NewKey): Promise<{ id: string; secret: string }> {
    return this.#database.write(() => this.#keys.create(input, this.#clock()));
  }

  async ensureKey(input: NewKey & { secret: string }): Promise<ApiKey> {
    return this.#database.write(() => this.#keys.ensure(input, this.#clock()));
  }

  async verifyKey(secret: string): Promise<Caller | null> {
    return this.#database.read(() => this.#keys.verify(secret));
  }

  async listKeys(entityId?: string): Promise<ApiKey[]> {
    return this.#database.read(() => this.#keys.list(entityId));
  }

  async revokeKey(keyId: string): Promise<boolean> {
    return this.#database.write(() => this.#keys.revoke(keyId, this.#clock()));
  }

  // models
  async createModel(input: NewModel): Promise<CreateModelResult> {
    return this.#database.write((): CreateModelResult => {
      const existing = this.#models.findByIdentity(input.entityId, input.project, input.name);
      if (existing !== null) return { kind: 'exists', model: existing };
      const now = this.#clock();
      const model = this.#models.insert(input, now);
      this.#checkpoints.insert({ modelId: model.id, step: 0, jobId: null, artifactKey: null, digest: null, metrics: {} }, now);
      this.#complete(input.completes);
      return { kind: 'created', model };
    });
  }

  async getModel(modelId: string): Promise<Model | null> {
    return this.#database.read(() => this.#models.get(modelId));
  }

  async findModel(entity: string, project: string, name: string): Promise<Model | null> {
    return this.#database.read(() => this.#models.find(entity, project, name));
  }

  async findModelByName(entity: string, name: string): Promise<FindModelResult> {
    return this.#database.read(() => this.#models.findByName(entity, name));
  }

  async listModels(query: OrderedPageQuery & { entityId?: string; project?: string }): Promise<Page<Model>> {
    return this.#database.read(() => this.#models.list(query));
  }

  async deleteModel(modelId: string): Promise<DeleteModelResult | null> {
    return this.#database.write((): DeleteModelResult | null => {
      if (this.#models.get(modelId) === null) return null;
      const now = this.#clock();
      const cancelled = this.#jobs.listLive(modelId).map((job) => this.#endWithFailure(job.id, 'cancelled', 'the model was deleted', now));
      const deleted = this.#checkpoints.listSteps(modelId).map((step) => this.#checkpoints.delete(modelId, step, now));
      this.#models.markDeleted(modelId, now);
      return {
        deletedCheckpoints: deleted.length,
        deletedRun: false,
        artifactKeys: this.#checkpoints.unreferenced([
          ...deleted.map((checkpoint) => checkpoint?.artifactKey ?? null),
          ...cancelled.map((job) => job.start?.artifactKey ?? null),
        ]),
        blobKeys: [...new Set([...this.#jobs.listGroupsKeys(modelId), ...this.#logs.listBlobKeys(modelId)])],
        cancelledJobIds: cancelled.map((job) => job.id),
      };
    });
  }

  // checkpoints
  async listCheckpoints(query: OrderedPageQuery & { modelId: string }): Promise<Page<Checkpoint>> {
    return this.#database.read(() => this.#checkpoints.list(query));
  }

  async getCheckpoint(modelId: string, step: number): Promise<Checkpoint | null> {
    return this.#database.read(() => this.#checkpoints.get(modelId, step));
  }

  async latestCheckpoint(modelId: string): Promise<Checkpoint | null> {
    return this.#database.read(() => this.#checkpoints.latest(modelId));
  }

  async deleteCheckpoints(modelId: string, steps: readonly number[]): Promise<DeleteCheckpointsResult> {
    return this.#database.write(() => {
      const now = this.#clock();
      const notFoundSteps: number[] = [];
      const deleted: Checkpoint[] = [];
      for (const step of new Set(steps)) {
        const checkpoint = this.#checkpoints.delete(modelId, step, now);
        if (checkpoint === null) notFoundSteps.push(step);
        else deleted.push(checkpoint);
      }
      const artifactKeys = this.#checkpoints.unreferenced(deleted.map((checkpoint) => checkpoint.artifactKey));
      return { deletedCount: deleted.length, notFoundSteps, artifactKeys };
    });
  }

  async mergeCheckpointMetrics(modelId: string, step: number, metrics: Metrics): Promise<Checkpoint | null> {
    return this.#database.write(() => {
      const checkpoint = this.#checkpoints.get(modelId, step);
      if (checkpoint === null) return null;
      const merged = { ...checkpoint.metrics, ...metrics };
      this.#checkpoints.setMetrics(checkpoint.id, merged);
      return { ...checkpoint, metrics: merged };
    });
  }

  // jobs
  async enqueueJob(input: NewJob): Promise<Job | null> {
    return this.#database.write(() => {
      if (this.#models.get(input.modelId) === null) return null;
      const job = this.#jobs.insert(input, this.#clock());
      this.#complete(input.completes);
      return job;
    });
  }

  async getJob(jobId: string): Promise<Job | null> {
    return this.#database.read(() => this.#jobs.get(jobId));
  }

  async listJobs(query: OrderedPageQuery & { modelId?: string; entityId?: string; status?: JobStatus }): Promise<Page<Job>> {
    return this.#database.read(() => this.#jobs.list(query));
  }

  async claimNextJob(workerId: string, leaseMs: number, now: number = this.#clock()): Promise<ClaimedJob | null> {
    return this.#database.write(() => {
      const job = this.#jobs.claim(workerId, now + leaseMs, now);
      if (job === null || job.start !== null) return job;
      const latest = this.#checkpoints.latest(job.modelId);
      if (latest === null) return job;
      const start = { step: latest.step, artifactKey: latest.artifactKey, digest: latest.digest };
      this.#jobs.setStart(job.id, start);
      return { ...job, start };
    });
  }

  async renewLease(jobId: string, fencingToken: number, leaseMs: number, now: number = this.#clock()): Promise<void> {
    this.#database.write(() => this.#jobs.extendLease(this.#jobs.held(jobId, fencingToken).id, now + leaseMs));
  }

  async releaseLease(jobId: string, fencingToken: number): Promise<void> {
    this.#database.write(() => this.#jobs.requeue(this.#jobs.held(jobId, fencingToken).id, false));
  }

  async appendEvent(jobId: string, fencingToken: number, event: NewEvent): Promise<{ event: JobEvent; isDuplicate: boolean }> {
    assert(event.type !== 'training_ended' && event.type !== 'training_failed', `${event.type} is written by finishing the job`);
    return this.#database.write(() => {
      this.#jobs.held(jobId, fencingToken);
      return this.#events.append(jobId, event.type, event.data, event.dedupeKey ?? null, this.#clock());
    });
  }

  async finishJobSucceeded(
    jobId: string,
    fencingToken: number,
    outcome: JobOutcome,
  ): Promise<{ job: Job; checkpoint: Checkpoint; artifactKeys: string[] }> {
    return this.#database.write(() => {
      const { modelId, start } = this.#jobs.held(jobId, fencingToken);
      const model = this.#models.get(modelId);
      assert(model !== null, 'a live job has a model: deleting the model ends its jobs');
      const now = this.#clock();
      const artifact = outcome.artifactKey === null ? start : outcome;
      const checkpoint = this.#checkpoints.insert(
        {
          modelId,
          step: model.nextStep,
          jobId,
          artifactKey: artifact?.artifactKey ?? null,
          digest: artifact?.digest ?? null,
          metrics: outcome.metrics,
        },
        now,
      );
      this.#models.advanceStep(modelId);
      this.#events.append(jobId, 'training_ended', {}, null, now);
      const job = this.#jobs.end(jobId, 'succeeded', null, now);
      return { job, checkpoint, artifactKeys: this.#checkpoints.unreferenced([start?.artifactKey ?? null]) };
    });
  }

  async finishJobFailed(jobId: string, fencingToken: number, errorMessage: string): Promise<{ job: Job; artifactKeys: string[] }> {
    return this.#database.write(() => {
      this.#jobs.held(jobId, fencingToken);
      const job = this.#endWithFailure(jobId, 'failed', errorMessage, this.#clock());
      return { job, artifactKeys: this.#checkpoints.unreferenced([job.start?.artifactKey ?? null]) };
    });
  }

  async cancelJob(jobId: string, reason: string): Promise<CancelJobResult | null> {
    return this.#database.write((): CancelJobResult | null => {
      const before = this.#jobs.get(jobId);
      if (before === null) return null;
      if (before.finishedAt !== null) return { kind: 'finished', job: before };
      const job = this.#endWithFailure(jobId, 'cancelled', reason, this.#clock());
      return { kind: 'cancelled', job, artifactKeys: this.#checkpoints.unreferenced([job.start?.artifactKey ?? null]) };
    });
  }

  async listEvents(query: PageQuery & { jobId: string }): Promise<Page<JobEvent> | null> {
    return this.#database.read(() => (this.#jobs.get(query.jobId) === null ? null : this.#events.list(query)));
  }

  // trajectory logs
  async recordLog(input: NewLog): Promise<TrajectoryLog | null> {
    return this.#database.write(() => {
      if (this.#models.get(input.modelId) === null) return null;
      const checkpoint = this.#checkpoints.latest(input.modelId);
      if (checkpoint !== null) {
        // Only what the last log of the split put there goes: `train/…` also holds the metrics of the job itself.
        const replaced = this.#logs.lastMetrics(checkpoint.id, input.split);
        const kept = Object.entries(checkpoint.metrics).filter(([name]) => !(name in replaced));
        this.#checkpoints.setMetrics(checkpoint.id, { ...Object.fromEntries(kept), ...input.metrics });
      }
      const log = this.#logs.insert(input, checkpoint, this.#clock());
      this.#complete(input.completes);
      return log;
    });
  }

  async listLogs(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>> {
    return this.#database.read(() => this.#logs.list(query));
  }

  // idempotency keys
  async beginIdempotent(request: { keyId: string; key: string; requestHash: string }): Promise<IdempotentState> {
    return this.#database.write(() => this.#idempotency.begin(request, this.#clock()));
  }

  async completeIdempotent(answer: IdempotentAnswer): Promise<void> {
    this.#database.write(() => this.#idempotency.complete(answer));
  }

  async abandonIdempotent(request: { keyId: string; key: string }): Promise<void> {
    this.#database.write(() => this.#idempotency.abandon(request));
  }

  // usage
  recordUsage(usage: Usage): void {
    this.#usage.add(usage);
  }

  async sumUsage(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]> {
    this.#usage.flush();
    return this.#database.read(() => this.#usage.sum(query));
  }

  // upkeep
  async recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }> {
    return this.#database.write(() => ({ numJobs: this.#jobs.requeueAllRunning(), numRequests: this.#idempotency.dropInProgress() }));
  }

  async purgeExpired(now: number = this.#clock()): Promise<{ numModels: number; numRequests: number }> {
    return this.#database.write(() => ({
      numModels: this.#models.purge(now - DELETED_MODEL_LIFETIME_MS),
      numRequests: this.#idempotency.purge(now),
    }));
  }

  async listReferencedKeys(): Promise<{ artifactKeys: string[]; blobKeys: string[] }> {
    return this.#database.read(() => ({ artifactKeys: this.#checkpoints.listArtifactKeys(), blobKeys: this.#logs.listAllBlobKeys() }));
  }

  async ping(): Promise<void> {
    this.#database.read(() => this.#database.get('select 1 from entities limit 1'));
  }

  /** Writes pending usage and closes the file; a second call does nothing. */
  async close(): Promise<void> {
    try {
      this.#usage.flush();
    } finally {
      this.#database.close();
    }
  }

  #endWithFailure(jobId: string, status: 'failed' | 'cancelled', errorMessage: string, now: number): Job {
    this.#events.append(jobId, 'training_failed', { error_message: errorMessage }, null, now);
    return this.#jobs.end(jobId, status, errorMessage, now);
  }

  #complete(answer: IdempotentAnswer | undefined): void {
    if (answer !== undefined) this.#idempotency.complete(answer);
  }
}
