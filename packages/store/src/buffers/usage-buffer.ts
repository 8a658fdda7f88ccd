import { randomUUID } from 'node:crypto';
import { StoreError } from '../contract/errors.ts';
import type { Usage } from '../contract/records.ts';
import type { Queries, Sql } from '../contract/sql.ts';
import { openTables } from '../tables/tables.ts';
import type { SummedUsage } from '../tables/usage-table.ts';

/** Usage of this long is written together. */
const FLUSH_MS = 50;
/** Usage of this long is added up in one row. */
const ROW_MS = 1000;

/**
 * Token usage on its way to the database. A commit with fsync for each request would cost more than the bookkeeping is worth, so requests of the same
 * key, project, model and kind are added up: for a moment here, so that other processes see them soon, and for a second in one row. A row has a name of this
 * process's making, and is written as what it comes to: a write whose answer was lost is done again, and counts once.
 */
export class UsageBuffer {
  readonly #sql: Sql;
  readonly #clock: () => number;
  #pending = new Map<string, SummedUsage>();
  /** The rows that are added to, by group. */
  #rows = new Map<string, UsageRow>();
  #rowsSince = 0;
  /** Settles once the pending rows were tried. */
  #tried = Promise.withResolvers<void>();
  #timer: NodeJS.Timeout | null = null;
  #written: Promise<void> = Promise.resolve();

  constructor(sql: Sql, clock: () => number) {
    this.#sql = sql;
    this.#clock = clock;
  }

  /** Settles when it was written, or could not be and waits for the next time. */
  add(usage: Usage): Promise<void> {
    this.#addUp({ ...usage, numRequests: 1 });
    return this.#tried.promise;
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
    const [batch, tried] = [this.#pending, this.#tried];
    this.#pending = new Map();
    this.#tried = Promise.withResolvers();
    const now = this.#clock();
    if (now < this.#rowsSince || now >= this.#rowsSince + ROW_MS) {
      // Whether some are written, and with how much, is not known: those are still to be.
      this.#rows = new Map([...this.#rows].filter(([, { isCertain }]) => !isCertain));
      this.#rowsSince = now;
    }
    for (const [group, sum] of batch) if (!this.#rows.has(group)) this.#rows.set(group, newRow(sum));
    try {
      this.#rows = await this.#sql.transaction((queries) => this.#insert(queries, batch, now), { isDurable: false });
    } catch (error) {
      // Of a closed database there is no next time.
      if (!isClosed(error))
        for (const [group, sum] of batch) {
          this.#rows.set(group, { ...(this.#rows.get(group) ?? newRow(sum)), isCertain: false });
          this.#addUp(sum);
        }
      throw error;
    } finally {
      tried.resolve();
    }
  }

  /** In a transaction. @returns the rows that are added to from now on */
  async #insert(
    queries: Queries,
    batch: ReadonlyMap<string, SummedUsage>,
    now: number,
  ): Promise<Map<string, UsageRow>> {
    const { usage } = openTables(queries);
    const rows = new Map(this.#rows);
    for (const [group, sum] of batch) {
      const row = rows.get(group) ?? newRow(sum);
      let written = { name: row.name, sum: sumOf(row.sum, sum) };
      if (!(await usage.set(written.name, written.sum))) {
        // One that was written and is no more was merged already, with what it came to then.
        if (row.isWritten) written = { name: randomUUID(), sum };
        await usage.insert(written.sum, now, written.name);
      }
      rows.set(group, { ...written, isWritten: true, isCertain: true });
    }
    return rows;
  }

  #flushLater(): void {
    this.#timer = null;
    // Nobody waits for this write: when it fails the sums are pending still, and the next one reports it.
    this.flush().catch(() => undefined);
  }
}

function isClosed(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.closed';
}

/** A row of this process, as it is or is to be. */
interface UsageRow {
  readonly name: string;
  /** its sum as far as that is known to be written */
  readonly sum: SummedUsage;
  readonly isWritten: boolean;
  /** false: more of it may be written */
  readonly isCertain: boolean;
}

function newRow(usage: SummedUsage): UsageRow {
  const sum = { ...usage, numRequests: 0, promptTokens: 0, completionTokens: 0 };
  return { name: randomUUID(), sum, isWritten: false, isCertain: true };
}

function sumOf(first: SummedUsage, second: SummedUsage): SummedUsage {
  return {
    ...first,
    numRequests: first.numRequests + second.numRequests,
    promptTokens: first.promptTokens + second.promptTokens,
    completionTokens: first.completionTokens + second.completionTokens,
  };
}
