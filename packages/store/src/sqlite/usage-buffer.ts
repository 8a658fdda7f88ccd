import type { Usage, UsageKind, UsageTotal } from '../records.ts';
import type { Database } from './database.ts';

const FLUSH_MS = 1000;

type TotalRow = {
  entity_id: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  num_requests: number;
  prompt_tokens: number;
  completion_tokens: number;
};

/**
 * Token usage on its way to disk. A commit with fsync for each request would cost more than the bookkeeping is worth, so requests
 * of the same key, project, model and kind are added up and written together, at most a second later.
 */
export class UsageBuffer {
  readonly #database: Database;
  readonly #clock: () => number;
  #pending = new Map<string, Usage & { numRequests: number }>();
  #timer: NodeJS.Timeout | null = null;

  constructor(database: Database, clock: () => number) {
    this.#database = database;
    this.#clock = clock;
  }

  add(usage: Usage): void {
    const group = JSON.stringify([usage.keyId, usage.entityId, usage.project, usage.model, usage.kind]);
    const sum = this.#pending.get(group);
    if (sum === undefined) {
      this.#pending.set(group, { ...usage, numRequests: 1 });
    } else {
      sum.numRequests += 1;
      sum.promptTokens += usage.promptTokens;
      sum.completionTokens += usage.completionTokens;
    }
    this.#timer ??= setTimeout(() => this.#flushLater(), FLUSH_MS).unref();
  }

  /** Writes what is pending; when that fails it stays pending. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#pending.size === 0) return;
    const now = this.#clock();
    this.#database.write(() => {
      for (const sum of this.#pending.values()) {
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
    });
    this.#pending = new Map();
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

  #flushLater(): void {
    this.#timer = null;
    try {
      this.flush();
    } catch {
      // Nobody waits for this write. The sums are still pending: the next usage, a `sumUsage` or `close()` tries again and reports.
    }
  }
}
