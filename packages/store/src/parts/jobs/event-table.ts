import { randomUUID } from 'node:crypto';
import type { Page, PageQuery } from '../../contract/page.ts';
import type { JobEvent } from './jobs.ts';
import type { Statements } from '../../contract/sql.ts';
import type { FeedTable } from '../feed/feed-table.ts';
import { parseObject } from '../json-column.ts';
import { listPage } from '../list.ts';

type EventRow = { id: string; job_id: string; seq: number; type: string; data: string; created_at: number };

/** Events of a job, in order. The schema allows one terminal event per job, and none after it. */
export class EventTable {
  readonly #sql: Statements;
  readonly #feed: FeedTable;
  /** @param feed receives each of them too */
  constructor(sql: Statements, feed: FeedTable) {
    this.#sql = sql;
    this.#feed = feed;
  }

  async append(
    jobId: string,
    { type, data, dedupeKey = null }: { type: string; data: object; dedupeKey?: string | null },
    now: number,
  ): Promise<{ event: JobEvent; isDuplicate: boolean }> {
    if (dedupeKey !== null) {
      const before = await this.#sql.get<EventRow>(
        'select * from job_events where job_id = ? and dedupe_key = ?',
        jobId,
        dedupeKey,
      );
      if (before !== undefined) return { event: toEvent(before), isDuplicate: true };
    }
    const text = JSON.stringify(data);
    const row = await this.#sql.get<EventRow>(
      `insert into job_events (id, job_id, seq, type, data, dedupe_key, created_at)
       values (?, ?, (select count(*) from job_events where job_id = ?), ?, ?, ?, ?) returning *`,
      randomUUID(),
      jobId,
      jobId,
      type,
      text,
      dedupeKey,
      now,
    );
    if (row === undefined) throw new Error(`event ${type} of job ${jobId} vanished`);
    await this.#feed.addEvent({ id: row.id, jobId, type }, now);
    return { event: toEvent(row), isDuplicate: false };
  }

  /** True if there is an event of that key; never for null. */
  async has(jobId: string, dedupeKey: string | null): Promise<boolean> {
    const statement = 'select 1 from job_events where job_id = ? and dedupe_key = ?';
    return (await this.#sql.get(statement, jobId, dedupeKey)) !== undefined;
  }

  async count(jobId: string, type: string): Promise<number> {
    const row = await this.#sql.get<{ count: number }>(
      'select count(*) as count from job_events where job_id = ? and type = ?',
      jobId,
      type,
    );
    return row?.count ?? 0;
  }

  async list(query: PageQuery & { jobId: string; type?: string }): Promise<Page<JobEvent>> {
    const source = {
      name: 'events',
      columns: '*',
      from: 'job_events',
      id: 'id',
      position: 'seq',
      filters: [
        ['job_id = ?', query.jobId],
        ...(query.type === undefined ? [] : [['type = ?', query.type] as const]),
      ] as const,
    };
    return await listPage<EventRow, JobEvent>(
      this.#sql,
      source,
      { after: query.after ?? null, ...(query.limit === undefined ? {} : { limit: query.limit }) },
      toEvent,
    );
  }
}

function toEvent(row: EventRow): JobEvent {
  return {
    id: row.id,
    jobId: row.job_id,
    seq: row.seq,
    type: row.type,
    data: parseObject(row.data),
    createdAt: row.created_at,
  };
}
