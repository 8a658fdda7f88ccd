import { DatabaseSync } from 'node:sqlite';
import { StoreError } from '../contract/errors.ts';
import type { Queries, Sql, SqlParameter, SqlResult, SqlRow } from '../contract/sql.ts';
import { MIGRATIONS } from '../migrations/index.ts';
import { sqliteFault } from '../drivers/sqlite/sqlite-fault.ts';
import { SQLITE_WORDS } from '../drivers/sqlite/sqlite-words.ts';

const NAME = ':memory:';

/** A database that ends with its last handle: the smallest that supports the tables. */
export class MemoryDatabase {
  readonly #connection = new DatabaseSync(NAME, { enableForeignKeyConstraints: true });
  /** Settles when the transaction in progress and the waiting ones have ended. */
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    for (const { sql } of MIGRATIONS) this.#connection.exec(sql(SQLITE_WORDS));
  }

  run<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[] = []): SqlResult<Row> {
    try {
      const prepared = this.#connection.prepare(statement);
      const hasRows = prepared.columns().length > 0;
      if (hasRows) return { rows: prepared.all(...parameters) as Row[], numChanged: 0 };
      return { rows: [], numChanged: Number(prepared.run(...parameters).changes) };
    } catch (error) {
      throw sqliteFault(error, NAME);
    }
  }

  /** Runs `work` alone. @throws {StoreError} `store.busy` */
  async inTurn<Result>(work: () => Promise<Result>, waitMs: number): Promise<Result> {
    const turn = Promise.withResolvers<void>();
    const before = this.#last;
    this.#last = before.then(() => turn.promise);
    const tooLate = Promise.withResolvers<never>();
    const busy = new StoreError('store.busy', `database ${NAME}: another kept it for more than ${waitMs} ms`);
    const timer = setTimeout(() => tooLate.reject(busy), waitMs);
    try {
      await Promise.race([before, tooLate.promise]);
      clearTimeout(timer);
      return await work();
    } finally {
      clearTimeout(timer);
      turn.resolve();
    }
  }
}

/** One handle. All share one connection, so each query takes its turn with the transactions of all. */
export class MemorySql implements Sql {
  readonly problem = null;
  readonly #database: MemoryDatabase;
  readonly #busyTimeoutMs: number;
  readonly #queries: Queries = {
    query: async <Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]) =>
      this.#database.run<Row>(statement, parameters),
  };
  #isClosed = false;

  constructor(database: MemoryDatabase, { busyTimeoutMs = 5_000 }: { busyTimeoutMs?: number } = {}) {
    this.#database = database;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>> {
    return this.#inTurn(() => this.#queries.query<Row>(statement, parameters));
  }

  transaction<Result>(body: (queries: Queries) => Promise<Result>): Promise<Result> {
    return this.#inTurn(async () => {
      this.#database.run('begin immediate');
      try {
        const result = await body(this.#queries);
        this.#database.run('commit');
        return result;
      } catch (error) {
        this.#database.run('rollback');
        throw error;
      }
    });
  }

  get now(): number {
    return Date.now();
  }

  readonly foreignVersion = null;
  readonly numLostConnections = 0;

  watchFeed(): () => void {
    return () => undefined;
  }

  async isAway(): Promise<boolean> {
    return false;
  }

  async reclaimSpace(): Promise<void> {}

  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.#inTurn(async () => {});
    this.#isClosed = true;
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.#database.inTurn(async () => {
      if (this.#isClosed) throw new StoreError('store.closed', `the database ${NAME} is closed`);
      return await work();
    }, this.#busyTimeoutMs);
  }
}
