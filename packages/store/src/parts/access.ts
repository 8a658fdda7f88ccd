import type { Sql, TransactionOptions } from '../contract/sql.ts';
import type { CompletesWith } from './idempotency/idempotency.ts';
import type { RequestsInProgress } from './idempotency/requests-in-progress.ts';
import { openTables, type Tables } from './tables.ts';

/** Options for writes that are repeated, so that they need not wait for the disk. */
export const HEARTBEAT: TransactionOptions = { isDurable: false };

/** Access to the database that the parts of one store share. */
export interface Access {
  readonly sql: Sql;
  /** Tables for single statements; a transaction has its own. */
  readonly tables: Tables;
  /** See `Store.instanceId`. */
  readonly instanceId: string;
  /** Milliseconds since the epoch on the clock of all writes. */
  readonly now: () => number;
  /** Writes of buffers, which run before the database closes. A part with a buffer adds its own. */
  readonly flushes: (() => Promise<void>)[];
  /** Runs `body` in one transaction. */
  readonly write: <Result>(body: (tables: Tables) => Promise<Result>, options?: TransactionOptions) => Promise<Result>;
  /** Runs `body` in one transaction, which also keeps the answer to a result other than null. */
  readonly writeAnswered: <Result>(
    body: (tables: Tables) => Promise<Result>,
    completes: CompletesWith<NonNullable<Result>> | undefined,
  ) => Promise<Result>;
}

export function accessTo(
  sql: Sql,
  parts: { instanceId: string; now: () => number; requests: Pick<RequestsInProgress, 'completeIn'> },
): Access {
  const { instanceId, now, requests } = parts;
  const write: Access['write'] = async (body, options) =>
    await sql.transaction((queries) => body(openTables(queries)), options);
  return {
    sql,
    tables: openTables(sql),
    instanceId,
    now,
    flushes: [],
    write,
    writeAnswered: (body, completes) =>
      write(async (tables) => {
        const result = await body(tables);
        const answer = result === null || result === undefined ? undefined : completes?.(result);
        if (answer !== undefined) await requests.completeIn(tables, answer);
        return result;
      }),
  };
}
