import type { Usage } from '../contract/records.ts';
import type { Sql } from '../contract/sql.ts';
import { openTables } from '../tables/tables.ts';
import type { SummedUsage } from '../tables/usage-table.ts';

const FLUSH_MS = 1000;
/**
 * Token usage on its way to disk. A commit with fsync for each request would cost more than the bookkeeping is worth, so requests
 * of the same key, project, model and kind are added up and written together, at most a second later.
 */
export class UsageBuffer {
  readonly #sql: Sql;
  readonly #clock: () => number;
  #pending = new Map<string, SummedUsage>();
  #written: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;

  constructor(sql: Sql, clock: () => number) {
    this.#sql = sql;
    this.#clock = clock;
  }

  add(usage: Usage): void {
    this.#addUp({ ...usage, numRequests: 1 });
  }

  #addUp(usage: SummedUsage): void {
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
      await this.#sql.transaction(async (queries) => {
        const { usage } = openTables(queries);
        for (const sum of batch.values()) await usage.insert(sum, now);
      });
    } catch (error) {
      for (const sum of batch.values()) this.#addUp(sum);
      throw error;
    }
  }

  #flushLater(): void {
    this.#timer = null;
    // Nobody waits for this write: when it fails the sums are pending still, and the next one reports it.
    this.flush().catch(() => undefined);
  }
}
