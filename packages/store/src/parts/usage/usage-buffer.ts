import { randomUUID } from 'node:crypto';
import { StoreError } from '../../contract/errors.ts';
import type { Usage } from './usage.ts';
import type { Queries, Sql } from '../../contract/sql.ts';
import { openTables } from '../tables.ts';
import type { SummedUsage } from './usage-table.ts';
import { settledWithin } from '../settled-within.ts';

/** Pause between a failed write and the next try. */
const RETRY_MS = 1000;
/** Longest time that an answer waits for its usage. A store that takes longer has a problem. */
const PATIENCE_MS = 500;
/** Period whose usage is summed in one row. */
const ROW_MS = 1000;

/**
 * Token usage on its way to the database. It is written before the last bytes of the answer, without an
 * fsync, so a killed process loses none. Requests of one turn of the event loop share a write, and those that
 * arrive during a write share the next (group commit). A row holds one second of a key, project, model and
 * kind. Its name is made here and each write sets its total, so a repeated write counts once.
 */
export class UsageBuffer {
  readonly #sql: Sql;
  readonly #clock: () => number;
  #pending = new Map<string, SummedUsage>();
  /** Rows that still grow, by group. */
  #rows = new Map<string, UsageRow>();
  #rowsSince = 0;
  #timer: NodeJS.Timeout | null = null;
  /** The write that takes everything pending when it starts. */
  #next: Promise<void> | null = null;
  /** The last write failed or took too long: answers do not wait until one succeeds. */
  #isFailing = false;
  #written: Promise<void> = Promise.resolve();

  constructor(sql: Sql, clock: () => number) {
    this.#sql = sql;
    this.#clock = clock;
  }

  /** Resolves once the usage is written, or earlier if the store has a problem; it is then written later. */
  async add(usage: Usage): Promise<void> {
    this.#addUp({ ...usage, numRequests: 1 });
    const written = this.#flushNext();
    if (!this.#isFailing && !(await settledWithin(written, PATIENCE_MS))) this.#isFailing = true;
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
  }

  /** Writes everything pending. After a failure it stays pending. */
  async flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    // In turn: after this call, everything that an earlier flush took is written, too.
    this.#written = this.#written.catch(() => undefined).then(() => this.#write());
    await this.#written;
  }

  async #write(): Promise<void> {
    if (this.#pending.size === 0) return;
    const batch = this.#pending;
    this.#pending = new Map();
    const now = this.#clock();
    if (now < this.#rowsSince || now >= this.#rowsSince + ROW_MS) {
      // Rows whose stored totals are uncertain must be written again.
      this.#rows = new Map([...this.#rows].filter(([, { isCertain }]) => !isCertain));
      this.#rowsSince = now;
    }
    for (const [group, sum] of batch) if (!this.#rows.has(group)) this.#rows.set(group, newRow(sum));
    try {
      this.#rows = await this.#sql.transaction((queries) => this.#insert(queries, batch, now), { isDurable: false });
      this.#isFailing = false;
    } catch (error) {
      this.#isFailing = true;
      // A closed database stays closed.
      if (!isClosed(error)) {
        for (const [group, sum] of batch) {
          this.#rows.set(group, { ...(this.#rows.get(group) ?? newRow(sum)), isCertain: false });
          this.#addUp(sum);
        }
        this.#timer ??= setTimeout(() => this.#retry(), RETRY_MS).unref();
      }
      throw error;
    }
  }

  /** Runs in a transaction. @returns the rows that still grow */
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
        // A written row that is gone was merged, with its total at that time.
        if (row.isWritten) written = { name: randomUUID(), sum };
        await usage.insert(written.sum, now, written.name);
      }
      rows.set(group, { ...written, isWritten: true, isCertain: true });
    }
    return rows;
  }

  /** Schedules a write that others may join. While the store has a problem, the retry timer starts it. */
  #flushNext(): Promise<void> {
    if (this.#isFailing && this.#timer !== null) return Promise.resolve();
    this.#next ??= new Promise((resolve) => setImmediate(resolve)).then(async () => {
      await this.#written.catch(() => undefined);
      this.#next = null;
      // After a failure the sums are still pending, and the next write reports the error.
      await this.flush().catch(() => undefined);
    });
    return this.#next;
  }

  #retry(): void {
    this.#timer = null;
    this.flush().catch(() => undefined);
  }
}

function isClosed(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.closed';
}

/** A row of this process, stored or to be stored. */
interface UsageRow {
  readonly name: string;
  /** its sum as far as it is known to be stored */
  readonly sum: SummedUsage;
  readonly isWritten: boolean;
  /** false: the stored sum may be larger */
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
