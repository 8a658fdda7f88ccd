import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { Checkpoint } from '../checkpoints/checkpoints.ts';
import type { Metrics } from '../runs/runs.ts';
import type { NewLog, TrajectoryLog } from './trajectories.ts';
import type { Statements } from '../../contract/sql.ts';
import { metricsText, parseMetrics } from '../json-column.ts';
import { KeptData } from '../kept-data.ts';
import { listPage } from '../list.ts';

type LogRow = {
  id: string;
  model_id: string;
  step: number | null;
  split: string;
  blob_key: string;
  num_groups: number;
  num_trajectories: number;
  num_exceptions: number;
  metrics: string;
  created_at: number;
  data_removed_at: number | null;
};

/** Blobs of logs and jobs whose models are not deleted, of artifacts, and of uploads. */
export const BLOB_REFERENCES = `
  select l.blob_key as key from trajectory_logs l join models m on m.id = l.model_id
    where m.deleted_at is null and l.data_removed_at is null
  union all select j.data_key from jobs j join models m on m.id = j.model_id
    where m.deleted_at is null and j.data_key is not null and j.data_removed_at is null
  union all select blob_key from artifacts where deleted_at is null
  union all select config_key from adapters
  union all select weights_key from adapters`;

/** Trajectories that clients logged, by split. */
export class LogTable {
  readonly #sql: Statements;
  readonly data: KeptData;
  constructor(sql: Statements) {
    this.#sql = sql;
    this.data = new KeptData(sql, { table: 'trajectory_logs', key: 'blob_key', since: 'created_at' });
  }

  async insert(input: NewLog, checkpoint: Checkpoint | null, now: number): Promise<TrajectoryLog> {
    const { modelId, split, blobKey, numGroups, numTrajectories, numExceptions, metrics } = input;
    const id = randomUUID();
    await this.#sql.run(
      `insert into trajectory_logs
         (id, model_id, checkpoint_id, step, split, blob_key, num_groups, num_trajectories, num_exceptions, metrics, created_at)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      modelId,
      checkpoint?.id ?? null,
      checkpoint?.step ?? null,
      split,
      blobKey,
      numGroups,
      numTrajectories,
      numExceptions,
      metricsText(metrics),
      now,
    );
    return {
      id,
      modelId,
      step: checkpoint?.step ?? null,
      split,
      blobKey,
      numGroups,
      numTrajectories,
      numExceptions,
      metrics,
      createdAt: now,
      dataRemovedAt: null,
    };
  }

  async lastMetrics(checkpointId: string, split: string): Promise<Metrics> {
    const row = await this.#sql.get<{ metrics: string }>(
      'select metrics from trajectory_logs where checkpoint_id = ? and split = ? order by position desc limit 1',
      checkpointId,
      split,
    );
    return row === undefined ? {} : parseMetrics(row.metrics);
  }

  async list(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>> {
    return await listPage<LogRow, TrajectoryLog>(
      this.#sql,
      {
        name: 'logs',
        columns: '*',
        from: 'trajectory_logs',
        id: 'id',
        position: 'position',
        filters: [
          ['model_id = ?', query.modelId],
          ['split = ?', query.split],
        ],
        visible: { condition: 'model_id in (select id from models where deleted_at is null)' },
      },
      query,
      toLog,
    );
  }

  /**
   * Keys of all blobs that a row names: remaining data of jobs and logs, files of artifacts, uploads of
   * adapters.
   */
  async listBlobKeys(): Promise<string[]> {
    const rows = await this.#sql.all<{ key: string }>(
      `select distinct key from (${BLOB_REFERENCES}) held where key is not null`,
    );
    return rows.map((row) => row.key);
  }

  async refersTo(blobKey: string): Promise<boolean> {
    const row = await this.#sql.get(`select 1 from (${BLOB_REFERENCES}) held where key = ? limit 1`, blobKey);
    return row !== undefined;
  }
}

function toLog(row: LogRow): TrajectoryLog {
  return {
    id: row.id,
    modelId: row.model_id,
    step: row.step,
    split: row.split,
    blobKey: row.blob_key,
    numGroups: row.num_groups,
    numTrajectories: row.num_trajectories,
    numExceptions: row.num_exceptions,
    metrics: parseMetrics(row.metrics),
    createdAt: row.created_at,
    dataRemovedAt: row.data_removed_at,
  };
}
