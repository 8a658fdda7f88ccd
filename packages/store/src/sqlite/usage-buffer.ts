import type { Usage, UsageKind, UsageTotal } from '../records.ts';
import type { Database } from './database.ts';

const FLUSH_MS = 1000;
const HOUR_MS = 3_600_000;

type TotalRow = {
  entity_id: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  num_requests: number;
  prompt_tokens: number;
  completion_tokens: number;
};

type PendingUsage = Usage & { numRequests: number };

/**
 * Token usage on its way to disk. A commit with fsync for each request would cost more than the bookkeeping is worth, so requests
 * of the same key, project, model and kind are added up and written together, at most a second later.
 */
export class UsageBuffer {
  readonly #database: Database;
  readonly #clock: () => number;
  #pending = new Map<string, PendingUsage>();
  #written: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;

  constructor(database: Database, clock: () => number) {
    this.#database = database;
    this.#clock = clock;
  }

  add(usage: Usage): void {
    this.#addUp({ ...usage, numRequests: 1 });
  }

  #addUp(usage: PendingUsage): void {
    const group = JSON.stringify([usage.keyId, usage.entityId, usage.project, usage.model, usage.kind]);
    const sum = this.#pending.get(group);
    if (sum === undefined) {
      this.#pending.set(group, { ...usage });
    } else {
      sum.numRequests += usage.numRequests;
      sum.promptTokens += usage.promptTokens;
      sum.completionTokens += usage.completionTokens;
    }
    this.#timer ??= setTimeout(() => this.#flushLater(), FLUSH_MS).unref();
  }

  /** Writes what is pending; when that fails it stays pending. */
  async flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    // In turn: who calls this finds written what a flush before it took along.
    this.#written = this.#written.catch(() => undefined).then(() => this.#write());
    await this.#written;
  }

  async #write(): Promise<void> {
    if (this.#pending.size === 0) return;
    const batch = this.#pending;
    this.#pending = new Map();
    try {
      const now = this.#clock();
      await this.#database.write(() => {
        for (const sum of batch.values()) this.#insert(sum, now);
      });
    } catch (error) {
      for (const sum of batch.values()) this.#addUp(sum);
      throw error;
    }
  }

  #insert(sum: PendingUsage, now: number): void {
    this.#database.run(
      `insert into usage (recorded_at, key_id, entity_id, project, model, kind, num_requests, prompt_tokens, completion_tokens)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      now,
      sum.keyId,
      sum.entityId,
      sum.project,
      sum.model,
      sum.kind,
      sum.numRequests,
      sum.promptTokens,
      sum.completionTokens,
    );
  }

  sum(query: { entityId?: string; from?: number; to?: number }): UsageTotal[] {
    const conditions = ['recorded_at >= ?', 'recorded_at < ?'];
    const parameters: (string | number)[] = [query.from ?? 0, query.to ?? Number.MAX_SAFE_INTEGER];
    if (query.entityId !== undefined) {
      conditions.push('entity_id = ?');
      parameters.push(query.entityId);
    }
    return this.#database
      .all<TotalRow>(
        `select entity_id, project, model, kind, sum(num_requests) as num_requests, sum(prompt_tokens) as prompt_tokens,
           sum(completion_tokens) as completion_tokens
         from usage where ${conditions.join(' and ')} group by entity_id, project, model, kind order by entity_id, project, model, kind`,
        ...parameters,
      )
      .map((row) => ({
        entityId: row.entity_id,
        project: row.project,
        model: row.model,
        kind: row.kind,
        numRequests: row.num_requests,
        promptTokens: row.prompt_tokens,
        completionTokens: row.completion_tokens,
      }));
  }

  /** Merges what is on disk; a step of a transaction. @returns how many records were merged */
  merge(before: number, limit: number): number {
    const oldest = `select id from usage where is_hour = 0 and recorded_at < ? order by recorded_at, id limit ?`;
    const wholeHours = Math.floor(before / HOUR_MS) * HOUR_MS;
    this.#database.run(
      `insert into usage (is_hour, recorded_at, key_id, entity_id, project, model, kind, num_requests, prompt_tokens, completion_tokens)
       select 1, recorded_at / ${HOUR_MS} * ${HOUR_MS} as hour, key_id, entity_id, project, model, kind,
         sum(num_requests), sum(prompt_tokens), sum(completion_tokens)
       from usage where id in (${oldest}) group by hour, key_id, entity_id, project, model, kind
       on conflict (recorded_at, key_id, entity_id, ifnull(project, ''), project is null, model, kind) where is_hour = 1 do update set
         num_requests = num_requests + excluded.num_requests,
         prompt_tokens = prompt_tokens + excluded.prompt_tokens,
         completion_tokens = completion_tokens + excluded.completion_tokens`,
      wholeHours,
      limit,
    );
    return this.#database.run(`delete from usage where id in (${oldest})`, wholeHours, limit);
  }

  #flushLater(): void {
    this.#timer = null;
    // Nobody waits for this write: when it fails the sums are pending still, and the next one reports it.
    this.flush().catch(() => undefined);
  }
}
