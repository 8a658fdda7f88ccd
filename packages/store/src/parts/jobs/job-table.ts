import { randomUUID } from 'node:crypto';
import { StoreError } from '../../contract/errors.ts';
import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type {
  ClaimedJob,
  EndedJob,
  Job,
  JobFilter,
  JobKind,
  JobOrigin,
  JobSnapshot,
  JobStart,
  JobStatus,
  LiveJobCounts,
  PullJob,
  QueuedJob,
  TrainingJob,
} from './jobs.ts';
import { holds, leaseBounds } from '../../contract/lease.ts';
import type { Statements } from '../../contract/sql.ts';
import { parseObject } from '../json-column.ts';
import { KeptData } from '../kept-data.ts';
import { listPage } from '../list.ts';
import { rowsOfIds } from '../rows-of.ts';

type JobRow = {
  position: number;
  id: string;
  entity_id: string;
  model_id: string | null;
  turn: string;
  kind: JobKind;
  status: JobStatus;
  config: string;
  data_key: string | null;
  key_id: string | null;
  request_id: string | null;
  trace_parent: string | null;
  usage_project: string | null;
  lease_owner: string | null;
  lease_expires_at: number | null;
  fencing_token: number;
  num_attempts: number;
  start_step: number | null;
  start_artifact_key: string | null;
  start_digest: string | null;
  error_message: string | null;
  paused_at: number | null;
  reference_artifact_key: string | null;
  base_model: string;
  snapshot_key: string | null;
  snapshot_steps: number | null;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
  data_removed_at: number | null;
};

export const NO_JOBS: LiveJobCounts = { queued: 0, running: 0, paused: 0 };
const TRAINING = "select * from jobs where kind in ('rl', 'sft')";

/** Initial state of a job of any kind. */
export interface JobInput {
  /** Default: a random UUID. */
  id?: string;
  entityId: string;
  modelId: string | null;
  turn: string;
  kind: JobKind;
  baseModel: string;
  config: object;
  dataKey: string | null;
  keyId?: string | null;
  /** Default: no known request. */
  origin?: JobOrigin;
  start?: JobStart;
}

export interface WantedJobs {
  readonly kinds: readonly JobKind[];
  /** Null for any. */
  readonly baseModels: readonly string[] | null;
}

/** Jobs of every kind and their leases. Methods that take a fencing token refuse a stale one. */
export class JobTable {
  readonly #sql: Statements;
  /** Training data of jobs; their lifetime counts from the end of the job. */
  readonly data: KeptData;
  constructor(sql: Statements) {
    this.#sql = sql;
    this.data = new KeptData(sql, { table: 'jobs', key: 'data_key', since: 'finished_at' });
  }

  async insert(input: JobInput, now: number): Promise<Job> {
    const { id = randomUUID(), start, origin } = input;
    await this.#sql.run(
      `insert into jobs (id, entity_id, model_id, turn, kind, base_model, status, config, data_key, key_id, request_id, trace_parent, usage_project, created_at)
       values (?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?)`,
      id,
      input.entityId,
      input.modelId,
      input.turn,
      input.kind,
      input.baseModel,
      JSON.stringify(input.config),
      input.dataKey,
      input.keyId ?? null,
      origin?.requestId ?? null,
      origin?.traceParent ?? null,
      origin?.project ?? null,
      now,
    );
    if (start !== undefined) await this.setStart(id, start);
    return await this.#existing(id);
  }

  async get(jobId: string): Promise<Job | null> {
    const row = await this.#sql.get<JobRow>('select * from jobs where id = ?', jobId);
    return row === undefined ? null : toJob(row);
  }

  /** Lists only training jobs. */
  async list(query: OrderedPageQuery & JobFilter): Promise<Page<TrainingJob>> {
    // The status of a job changes, so it affects the visible rows but not the validity of a cursor.
    const visible =
      query.status === undefined ? {} : { visible: { condition: 'j.status = ?', parameters: [query.status] } };
    return await listPage<JobRow, TrainingJob>(
      this.#sql,
      {
        name: 'jobs',
        columns: 'j.*',
        from: `(${TRAINING}) j`,
        id: 'j.id',
        position: 'j.position',
        filters: [
          ['j.model_id = ?', query.modelId],
          ['j.entity_id = ?', query.entityId],
          ['j.kind = ?', query.kind],
          ['j.model_id in (select id from models where project = ?)', query.project],
        ],
        ...visible,
      },
      query,
      (row) => toJob(row) as TrainingJob,
    );
  }

  /** Unfinished training jobs, of all entities or of one, each with the number of jobs before it. */
  async listQueue({ entityId, limit }: { entityId?: string; limit: number }): Promise<QueuedJob[]> {
    // A paused job does not delay those of other models.
    const rows = await this.#sql.all<JobRow & { num_ahead: number }>(
      `select * from (
         select j.*, cast(sum(case when j.paused_at is null then 1 else 0 end) over (order by j.position) as bigint)
           - case when j.paused_at is null then 1 else 0 end as num_ahead
         from (${TRAINING}) j where j.status in ('queued', 'running')) live
       ${entityId === undefined ? '' : 'where entity_id = ?'} order by position limit ?`,
      ...(entityId === undefined ? [] : [entityId]),
      limit,
    );
    return rows.map((row) => ({ job: toJob(row) as TrainingJob, numAhead: row.num_ahead }));
  }

  /** Number of unfinished training jobs of these models, by model; no entry for a model without any. */
  async countStates(modelIds: readonly string[]): Promise<Map<string, LiveJobCounts>> {
    const rows = await rowsOfIds<{ model_id: string; state: keyof LiveJobCounts; count: number }>(
      this.#sql,
      modelIds,
      (marks) => `select model_id, state, count(*) as count from (
         select model_id, case when paused_at is null then status else 'paused' end as state from (${TRAINING}) j
         where model_id in (${marks}) and status in ('queued', 'running')) live group by model_id, state`,
    );
    const found = new Map<string, LiveJobCounts>();
    for (const { model_id: modelId, state, count } of rows)
      found.set(modelId, { ...NO_JOBS, ...found.get(modelId), [state]: count });
    return found;
  }

  async listLive(modelId: string): Promise<Job[]> {
    return (
      await this.#sql.all<JobRow>(
        `select * from jobs where model_id = ? and status in ('queued', 'running') order by position`,
        modelId,
      )
    ).map(toJob);
  }

  /** Queued and running jobs of that turn, in order. */
  async listLiveOfTurn(turn: string): Promise<Job[]> {
    return (
      await this.#sql.all<JobRow>(
        `select * from jobs where turn = ? and status in ('queued', 'running') order by position`,
        turn,
      )
    ).map(toJob);
  }

  /** Newest pull of each base model, in order of submission. */
  async listNewestPulls(): Promise<PullJob[]> {
    const rows = await this.#sql.all<JobRow>(
      `select * from jobs where position in (select max(position) from jobs where kind = 'pull' group by base_model) order by position`,
    );
    return rows.map((row) => toJob(row) as PullJob);
  }

  /** Number of queued and running jobs of these kinds, of all models or of one. */
  async countLive(kinds: readonly JobKind[], modelId: string | null): Promise<number> {
    const row = await this.#sql.get<{ count: number }>(
      `select count(*) as count from jobs
       where status in ('queued', 'running') and kind in (${marks(kinds)})${modelId === null ? '' : ' and model_id = ?'}`,
      ...kinds,
      ...(modelId === null ? [] : [modelId]),
    );
    return row?.count ?? 0;
  }

  /** True if a claim would find a job. */
  async hasClaimable(wanted: WantedJobs, now: number): Promise<boolean> {
    return (await this.#nextClaimable(wanted, now)) !== undefined;
  }

  /** Claims the next job that may run; the caller sets its start if it has none. */
  async claim(workerId: string, expiresAt: number, wanted: WantedJobs, now: number): Promise<ClaimedJob<Job> | null> {
    const next = await this.#nextClaimable(wanted, now);
    if (next === undefined) return null;
    await this.#sql.run(
      `update jobs set status = 'running', lease_owner = ?, lease_expires_at = ?, fencing_token = fencing_token + 1,
         num_attempts = num_attempts + 1, started_at = coalesce(started_at, ?)
       where id = ?`,
      workerId,
      expiresAt,
      // Clocks can be set back; a job never starts before its creation.
      Math.max(now, next.created_at),
      next.id,
    );
    const job = await this.#existing(next.id);
    if (job.lease === null) throw new Error(`job ${job.id} was claimed but has no lease`);
    return { ...job, status: 'running', lease: job.lease, fencingToken: job.lease.fencingToken };
  }

  async #nextClaimable(
    { kinds, baseModels }: WantedJobs,
    now: number,
  ): Promise<{ id: string; created_at: number } | undefined> {
    if (baseModels?.length === 0) return undefined;
    return await this.#sql.get(
      `select j.id, j.created_at from jobs j
       where j.kind in (${marks(kinds)})${baseModels === null ? '' : ` and j.base_model in (${marks(baseModels)})`}
         and ((j.status = 'queued' and j.paused_at is null) or (j.status = 'running' and not ${holds('j.lease_expires_at')}))
         and not exists (
           select 1 from jobs earlier
           where earlier.turn = j.turn and earlier.position < j.position and earlier.status in ('queued', 'running'))
       order by j.position limit 1`,
      ...kinds,
      ...(baseModels ?? []),
      ...leaseBounds(now),
    );
  }

  async setStart(jobId: string, start: JobStart): Promise<void> {
    await this.#sql.run(
      'update jobs set start_step = ?, start_artifact_key = ?, start_digest = ? where id = ?',
      start.step,
      start.directoryKey,
      start.digest,
      jobId,
    );
  }

  /** Returns the job if `fencingToken` still holds it. @throws {StoreError} `store.lease_lost` */
  async held(jobId: string, fencingToken: number): Promise<Job> {
    const job = await this.get(jobId);
    if (job === null) throw new StoreError('store.lease_lost', `job ${jobId} is unknown`);
    if (job.lease === null) throw new StoreError('store.lease_lost', `job ${jobId} is ${job.status} and has no lease`);
    if (job.lease.fencingToken !== fencingToken) {
      throw new StoreError(
        'store.lease_lost',
        `job ${jobId} is held by ${job.lease.owner} with token ${job.lease.fencingToken}, not ${fencingToken}`,
      );
    }
    return job;
  }

  async extendLease(jobId: string, expiresAt: number): Promise<void> {
    await this.#sql.run('update jobs set lease_expires_at = ? where id = ?', expiresAt, jobId);
  }

  async requeue(jobId: string, countsAttempt: boolean): Promise<void> {
    await this.#sql.run(
      `update jobs set status = 'queued', lease_owner = null, lease_expires_at = null, num_attempts = num_attempts - ? where id = ?`,
      countsAttempt ? 0 : 1,
      jobId,
    );
  }

  /** Training job of each of these models that ended last, by model. */
  async lastEnded(modelIds: readonly string[]): Promise<Map<string, EndedJob>> {
    const rows = await rowsOfIds<{
      model_id: string;
      id: string;
      status: EndedJob['status'];
      error_message: string | null;
      finished_at: number;
    }>(
      this.#sql,
      modelIds,
      // Jobs of a model run in the order of their positions, apart from cancelled ones.
      (
        marks,
      ) => `select j.model_id, j.id, j.status, j.error_message, j.finished_at from models m join jobs j on j.position = (
         select e.position from jobs e where e.model_id = m.id and e.kind in ('rl', 'sft') and e.finished_at is not null
         order by e.position desc limit 1)
       where m.id in (${marks})`,
    );
    return new Map(
      rows.map((row) => [
        row.model_id,
        { id: row.id, status: row.status, errorMessage: row.error_message, finishedAt: row.finished_at },
      ]),
    );
  }

  /** Resets the count after the present attempt has gone further than earlier ones. */
  async forgetEarlierAttempts(jobId: string): Promise<void> {
    await this.#sql.run('update jobs set num_attempts = 1 where id = ? and num_attempts > 1', jobId);
  }

  /**
   * Pauses a job. A running one returns to the queue, its worker loses the lease, and the attempt does not
   * count.
   */
  async pause(jobId: string, now: number): Promise<Job> {
    if ((await this.#existing(jobId)).lease !== null) await this.requeue(jobId, false);
    await this.#sql.run('update jobs set paused_at = coalesce(paused_at, ?) where id = ?', now, jobId);
    return await this.#existing(jobId);
  }

  async resume(jobId: string): Promise<Job> {
    await this.#sql.run('update jobs set paused_at = null where id = ?', jobId);
    return await this.#existing(jobId);
  }

  async setSnapshot(jobId: string, { directoryKey, numGradientSteps }: JobSnapshot): Promise<void> {
    await this.#sql.run(
      'update jobs set snapshot_key = ?, snapshot_steps = ? where id = ?',
      directoryKey,
      numGradientSteps,
      jobId,
    );
  }

  async setReference(jobId: string, directoryKey: string): Promise<void> {
    await this.#sql.run('update jobs set reference_artifact_key = ? where id = ?', directoryKey, jobId);
  }

  /** Returns the value of `setReference`; null also if it was never called. */
  async referenceOf(jobId: string): Promise<string | null> {
    const row = await this.#sql.get<{ key: string | null }>(
      'select reference_artifact_key as key from jobs where id = ?',
      jobId,
    );
    return row?.key ?? null;
  }

  /** @returns the number of requeued jobs */
  async requeueHeldBy(workerId: string): Promise<number> {
    return await this.#sql.run(
      `update jobs set status = 'queued', lease_owner = null, lease_expires_at = null where status = 'running' and lease_owner = ?`,
      workerId,
    );
  }

  async end(
    { id, startedAt, createdAt }: Job,
    status: 'succeeded' | 'failed' | 'cancelled',
    errorMessage: string | null,
    now: number,
  ): Promise<Job> {
    await this.#sql.run(
      // Nor does it end before it started.
      `update jobs set status = ?, error_message = ?, finished_at = ?, paused_at = null, lease_owner = null, lease_expires_at = null where id = ?`,
      status,
      errorMessage,
      Math.max(now, startedAt ?? createdAt),
      id,
    );
    return await this.#existing(id);
  }

  async #existing(jobId: string): Promise<Job> {
    const job = await this.get(jobId);
    if (job === null) throw new Error(`job ${jobId} vanished`);
    return job;
  }
}

function marks(values: readonly unknown[]): string {
  return values.map(() => '?').join(', ');
}

/** The schema determines the columns of a kind. */
function toJob(row: JobRow): Job {
  const isHeld = row.lease_owner !== null && row.lease_expires_at !== null;
  return {
    id: row.id,
    entityId: row.entity_id,
    modelId: row.model_id,
    turn: row.turn,
    baseModel: row.base_model,
    kind: row.kind,
    status: row.status,
    pausedAt: row.paused_at,
    position: row.position,
    config: parseObject(row.config),
    dataKey: row.data_key,
    keyId: row.key_id,
    origin: { requestId: row.request_id, traceParent: row.trace_parent, project: row.usage_project },
    lease: isHeld
      ? { owner: row.lease_owner ?? '', fencingToken: row.fencing_token, expiresAt: row.lease_expires_at ?? 0 }
      : null,
    start:
      row.start_step === null
        ? null
        : { step: row.start_step, directoryKey: row.start_artifact_key, digest: row.start_digest },
    snapshot:
      row.snapshot_key === null ? null : { directoryKey: row.snapshot_key, numGradientSteps: row.snapshot_steps ?? 0 },
    numAttempts: row.num_attempts,
    errorMessage: row.error_message,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    dataRemovedAt: row.data_removed_at,
  } as Job;
}
