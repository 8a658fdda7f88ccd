import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../page.ts';
import type { Checkpoint, Metrics, TrajectoryLog } from '../records.ts';
import type { NewLog } from '../store.ts';
import type { Database } from './database.ts';
import { metricsText, parseMetrics } from './json-column.ts';
import { listPage } from './list.ts';

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

/** Trajectories that clients logged, by split. */
export class LogTable {
  readonly #database: Database;
  constructor(database: Database) {
    this.#database = database;
  }

  insert(input: NewLog, checkpoint: Checkpoint | null, now: number): TrajectoryLog {
    const { modelId, split, blobKey, numGroups, numTrajectories, numExceptions, metrics } = input;
    const id = randomUUID();
    this.#database.run(
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

  /** Metrics of the last log of this split on this checkpoint. */
  lastMetrics(checkpointId: string, split: string): Metrics {
    const row = this.#database.get<{ metrics: string }>(
      'select metrics from trajectory_logs where checkpoint_id = ? and split = ? order by position desc limit 1',
      checkpointId,
      split,
    );
    return row === undefined ? {} : parseMetrics(row.metrics);
  }

  list(query: OrderedPageQuery & { modelId: string; split?: string }): Page<TrajectoryLog> {
    return listPage<LogRow, TrajectoryLog>(
      this.#database,
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

  listBlobKeys(modelId: string): string[] {
    return this.#database
      .all<{ key: string }>('select distinct blob_key as key from trajectory_logs where model_id = ?', modelId)
      .map((row) => row.key);
  }

  /** Marks the trajectories of the first logs from before that time as removed. @returns the key of each */
  markDataRemoved(before: number, limit: number, now: number): string[] {
    return this.#database
      .all<{ key: string }>(
        `update trajectory_logs set data_removed_at = ? where position in (
           select position from trajectory_logs where data_removed_at is null and created_at < ? order by created_at limit ?)
         returning blob_key as key`,
        now,
        before,
        limit,
      )
      .map((row) => row.key);
  }

  /** Whether a log still has this blob. */
  namesData(blobKey: string): boolean {
    const sql = 'select 1 from trajectory_logs where blob_key = ? and data_removed_at is null limit 1';
    return this.#database.get(sql, blobKey) !== undefined;
  }

  /** Blob keys of all logs and jobs that have their data still, and whose models are not deleted. */
  listAllBlobKeys(): string[] {
    return this.#database
      .all<{ key: string }>(
        `select blob_key as key from trajectory_logs l join models m on m.id = l.model_id
           where m.deleted_at is null and l.data_removed_at is null
         union select groups_key from jobs j join models m on m.id = j.model_id
           where m.deleted_at is null and j.data_removed_at is null`,
      )
      .map((row) => row.key);
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
