import { StoreError } from '../contract/errors.ts';
import type { Queries, Sql, SqlParameter, SqlResult, SqlRow, TransactionOptions } from '../contract/sql.ts';

/** One call of the database, for monitoring. */
export interface DatabaseCall {
  /** A single statement, or a write transaction of several. */
  readonly kind: 'query' | 'transaction';
  /** `ok`, or the code of the `StoreError`; `error` for other errors thrown by the body of a transaction. */
  readonly outcome: string;
  /** Duration, including the wait for other writers. */
  readonly seconds: number;
  /** Round trips: each statement, and the start and end of a transaction. */
  readonly roundTrips: number;
}

/** The same database, reporting each call. */
export class MeasuredSql implements Sql {
  readonly #sql: Sql;
  readonly #report: (call: DatabaseCall) => void;

  constructor(sql: Sql, onCall: (call: DatabaseCall) => void) {
    this.#sql = sql;
    this.#report = onCall;
  }

  query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>> {
    return this.#measure(
      'query',
      () => 1,
      () => this.#sql.query<Row>(statement, parameters),
    );
  }

  transaction<Result>(body: (queries: Queries) => Promise<Result>, options?: TransactionOptions): Promise<Result> {
    let roundTrips = 2;
    const counted = (queries: Queries) =>
      body({
        query: (statement, parameters) => {
          roundTrips += 1;
          return queries.query(statement, parameters);
        },
      });
    return this.#measure(
      'transaction',
      () => roundTrips,
      () => this.#sql.transaction(counted, options),
    );
  }

  get now(): number {
    return this.#sql.now;
  }

  get foreignVersion(): number | null {
    return this.#sql.foreignVersion;
  }

  watchFeed(wake: () => void): () => void {
    return this.#sql.watchFeed(wake);
  }

  get problem(): string | null {
    return this.#sql.problem;
  }

  get numLostConnections(): number {
    return this.#sql.numLostConnections;
  }

  isAway(): Promise<boolean> {
    return this.#sql.isAway();
  }

  reclaimSpace(): Promise<void> {
    return this.#sql.reclaimSpace();
  }

  close(): Promise<void> {
    return this.#sql.close();
  }

  async #measure<Result>(
    kind: DatabaseCall['kind'],
    roundTrips: () => number,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const startedAt = performance.now();
    let outcome = 'ok';
    try {
      return await work();
    } catch (error) {
      outcome = error instanceof StoreError ? error.code : 'error';
      throw error;
    } finally {
      this.#report({ kind, outcome, seconds: (performance.now() - startedAt) / 1000, roundTrips: roundTrips() });
    }
  }
}
