import type { FeedItem, FeedQuery, FeedType } from './feed.ts';
import type { SqlParameter, Statements } from '../../contract/sql.ts';
import { parseObject } from '../json-column.ts';

const DEFAULT_LIMIT = 100;

type FeedRow = {
  position: number;
  entity_id: string;
  type: string;
  model_id: string | null;
  job_id: string | null;
  data: string;
  created_at: number;
};

/** All events in one order. Rows of deleted models stay until they expire. */
export class FeedTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async add(
    item: { type: FeedType; entityId: string; modelId: string | null; jobId?: string; data?: object },
    now: number,
  ): Promise<void> {
    await this.#sql.run(
      'insert into feed (entity_id, type, model_id, job_id, data, created_at) values (?, ?, ?, ?, ?, ?)',
      item.entityId,
      item.type,
      item.modelId,
      item.jobId ?? null,
      JSON.stringify(item.data ?? {}),
      now,
    );
  }

  /** Adds an event of a job, as a reference to its row. */
  async addEvent(event: { id: string; jobId: string; type: string }, now: number): Promise<void> {
    await this.#sql.run(
      `insert into feed (entity_id, type, model_id, job_id, event_id, created_at)
       select entity_id, ?, model_id, id, ?, ? from jobs where id = ?`,
      event.type,
      event.id,
      now,
      event.jobId,
    );
  }

  async list({ entityId, after, limit = DEFAULT_LIMIT, modelId, order = 'asc' }: FeedQuery): Promise<FeedItem[]> {
    const conditions = [order === 'asc' ? 'f.position > ?' : 'f.position < ?'];
    const parameters: SqlParameter[] = [after ?? (order === 'asc' ? 0 : Number.MAX_SAFE_INTEGER)];
    if (entityId !== undefined) {
      conditions.push('f.entity_id = ?');
      parameters.push(entityId);
    }
    if (modelId !== undefined) {
      conditions.push('f.model_id = ?');
      parameters.push(modelId);
    }
    const rows = await this.#sql.all<FeedRow>(
      `select f.position, f.entity_id, f.type, f.model_id, f.job_id, coalesce(f.data, e.data, '{}') as data, f.created_at
       from feed f left join job_events e on e.id = f.event_id
       where ${conditions.join(' and ')} order by f.position ${order} limit ?`,
      ...parameters,
      limit,
    );
    return rows.map((row) => ({
      position: row.position,
      entityId: row.entity_id,
      type: row.type,
      modelId: row.model_id,
      jobId: row.job_id,
      data: parseObject(row.data),
      createdAt: row.created_at,
    }));
  }

  /** Position of the newest item; 0 if there is none. */
  async lastPosition(): Promise<number> {
    return (await this.#sql.get<{ last: number | null }>('select max(position) as last from feed'))?.last ?? 0;
  }

  async purge(before: number): Promise<void> {
    await this.#sql.run('delete from feed where created_at < ?', before);
  }
}
