import type { CheckpointSizes, CheckpointState, CheckpointTotals } from './checkpoint-retention.ts';
import type { Statements } from '../../contract/sql.ts';

type StateRow = {
  id: string;
  step: number;
  artifact_key: string | null;
  created_at: number;
  kept_at: number | null;
  used_until: number | null;
  size_bytes: number | null;
  optimizer_bytes: number | null;
  optimizer_dropped_at: number | null;
  deleted_at: number | null;
  is_referenced: number;
  is_optimizer_shared: number;
};

const LIVE_JOB = `status in ('queued', 'running')`;

/** Columns of checkpoints `c` for a policy. Deleted checkpoints have no key any more; removed ones have. */
const STATES = `
  select c.id, c.step, c.artifact_key, c.created_at, c.kept_at, c.used_until, c.size_bytes, c.optimizer_bytes, c.optimizer_dropped_at, c.deleted_at,
    case when c.artifact_key is not null and (
      c.artifact_key in (
        select start_artifact_key from jobs where ${LIVE_JOB}
        union all select reference_artifact_key from jobs where ${LIVE_JOB}
        union all select snapshot_key from jobs where ${LIVE_JOB}
        union all select artifact_key from exports
        union all select artifact_key from adapters)
      or exists (select 1 from checkpoints o where o.artifact_key = c.artifact_key and o.model_id <> c.model_id and o.deleted_at is null)
    ) then 1 else 0 end as is_referenced,
    case when exists (
      select 1 from checkpoints o join models m on m.id = o.model_id
      where o.artifact_key = c.artifact_key and o.model_id <> c.model_id and coalesce(m.init_artifact_key, '') <> o.artifact_key
    ) then 1 else 0 end as is_optimizer_shared
  from checkpoints c where c.model_id = ? and (c.deleted_at is null or c.artifact_key is not null)`;

/** Columns of checkpoints that decide if they are kept. */
export class CheckpointRetentionTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async list(modelId: string): Promise<CheckpointState[]> {
    return (await this.#sql.all<StateRow>(`${STATES} order by c.step`, modelId)).map(toState);
  }

  async listModelsTrainedSince(at: number): Promise<string[]> {
    const rows = await this.#sql.all<{ model_id: string }>(
      'select distinct model_id from checkpoints where created_at >= ? and step > 0 and deleted_at is null',
      at,
    );
    return rows.map((row) => row.model_id);
  }

  async setSizes(directoryKey: string, { sizeBytes, optimizerBytes }: CheckpointSizes): Promise<void> {
    await this.#sql.run(
      'update checkpoints set size_bytes = ?, optimizer_bytes = ? where artifact_key = ?',
      sizeBytes,
      optimizerBytes,
      directoryKey,
    );
  }

  async hold(modelId: string, step: number, until: number): Promise<void> {
    await this.#sql.run(
      `update checkpoints set used_until = ? where model_id = ? and step = ? and deleted_at is null and (used_until is null or used_until < ?)`,
      until,
      modelId,
      step,
      until,
    );
  }

  /** Sets or removes the mark of a checkpoint. A removed one that is marked is live again. */
  async mark(id: string, keptAt: number | null): Promise<void> {
    await this.#sql.run('update checkpoints set kept_at = ? where id = ?', keptAt, id);
    if (keptAt !== null) await this.#sql.run('update checkpoints set deleted_at = null where id = ?', id);
  }

  async remove(id: string, now: number): Promise<void> {
    await this.#sql.run('update checkpoints set deleted_at = ? where id = ?', now, id);
  }

  /** Reduces a removed checkpoint to the row of a deleted one. */
  async forget(id: string): Promise<void> {
    await this.#sql.run(
      `update checkpoints set artifact_key = null, digest = null, metrics = '{}' where id = ? and deleted_at is not null`,
      id,
    );
  }

  async digestOf(id: string): Promise<string | null> {
    const row = await this.#sql.get<{ digest: string | null }>('select digest from checkpoints where id = ?', id);
    return row?.digest ?? null;
  }

  async isStartOfLiveJob(directoryKey: string): Promise<boolean> {
    const jobs = `select 1 from jobs where ${LIVE_JOB} and kind in ('rl', 'sft') and start_artifact_key = ?`;
    return (await this.#sql.get(jobs, directoryKey)) !== undefined;
  }

  async dropOptimizer(directoryKey: string, now: number): Promise<void> {
    await this.#sql.run(
      'update checkpoints set optimizer_dropped_at = ? where artifact_key = ? and optimizer_dropped_at is null',
      now,
      directoryKey,
    );
  }

  /** True if jobs start from that directory with a fresh optimizer, because its state was removed. */
  async isOptimizerDropped(directoryKey: string): Promise<boolean> {
    const rows = 'select 1 from checkpoints where artifact_key = ? and optimizer_dropped_at is not null';
    return (await this.#sql.get(rows, directoryKey)) !== undefined;
  }

  /** Sums sizes; directories shared by several checkpoints count once. */
  async sum(): Promise<CheckpointTotals> {
    const counts = await this.#sql.get<{ live: number; marked: number; unmeasured: number }>(
      `select count(*) as live, count(kept_at) as marked,
         cast(coalesce(sum(case when artifact_key is not null and size_bytes is null then 1 else 0 end), 0) as bigint) as unmeasured
       from checkpoints where deleted_at is null`,
    );
    const bytes = await this.#sql.get<{ size: number; optimizer: number }>(
      `select cast(coalesce(sum(size_bytes), 0) as bigint) as size, cast(coalesce(sum(optimizer_bytes), 0) as bigint) as optimizer
       from (select artifact_key, max(size_bytes) as size_bytes, max(optimizer_bytes) as optimizer_bytes
             from checkpoints where deleted_at is null and artifact_key is not null group by artifact_key) sizes`,
    );
    return {
      numCheckpoints: counts?.live ?? 0,
      numMarked: counts?.marked ?? 0,
      numUnmeasured: counts?.unmeasured ?? 0,
      sizeBytes: bytes?.size ?? 0,
      optimizerBytes: bytes?.optimizer ?? 0,
    };
  }
}

function toState(row: StateRow): CheckpointState {
  return {
    id: row.id,
    step: row.step,
    directoryKey: row.artifact_key,
    createdAt: row.created_at,
    keptAt: row.kept_at,
    usedUntil: row.used_until,
    isReferenced: row.is_referenced === 1,
    isOptimizerShared: row.is_optimizer_shared === 1,
    sizeBytes: row.size_bytes,
    optimizerBytes: row.optimizer_bytes,
    isOptimizerDropped: row.optimizer_dropped_at !== null,
    removedAt: row.deleted_at,
  };
}
