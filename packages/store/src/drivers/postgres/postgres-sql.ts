import pg from 'pg';
import { StoreError } from '../../contract/errors.ts';
import type { Migration } from '../../migrations/migration.ts';
import { pendingStatements } from '../pending-statements.ts';
import type { Queries, Sql, SqlParameter, SqlResult, SqlRow, TransactionOptions } from '../../contract/sql.ts';
import { postgresFault } from './postgres-fault.ts';
import { POSTGRES_WORDS } from './postgres-words.ts';

const INT8_OID = 20;
/** Names the one lock of a database that its writers take in turn, among the advisory locks of others: "trainyrd" as a number. */
const WRITER_LOCK = '8390876161197568612';
/** A wait that is worth telling: other writers are done in milliseconds. */
const NOTICEABLE_WAIT_MS = 1_000;

export interface PostgresOptions {
  /** How long a call waits for a connection or for other writers, default 5000 ms. */
  busyTimeoutMs?: number;
  /** Connections at most, default 8; transactions need one of them. */
  maxConnections?: number;
  /** For tests of the migrations themselves. */
  migrations?: readonly Migration[];
}

/**
 * One PostgreSQL database, migrated.
 *
 * Writers take turns, over all processes (an advisory lock) as with SQLite: the lifecycles read and then write as if they were alone, and nothing is
 * ever rolled back for having met another. Readers see what is committed and wait for nobody. A server that goes away is `store.unavailable`
 * until it answers again.
 */
export class PostgresSql implements Sql {
  /** As messages call it: without the user and its password. */
  readonly name: string;
  readonly #pool: pg.Pool;
  readonly #busyTimeoutMs: number;
  readonly #texts = new Map<string, string>();
  /** Settles with the last transaction of this process: they wait for one another here rather than each with a connection. */
  #last: Promise<unknown> = Promise.resolve();
  /** On the clock of `performance.now()`; null when nobody waits for other processes. */
  #waitsSince: number | null = null;
  #isClosed = false;

  /**
   * @param url such as `postgresql://user:password@host:5432/database`
   * @throws {StoreError} `store.unavailable`, `store.schema_newer`, `store.busy`, `store.disk_full`
   */
  static async open(url: string, options: PostgresOptions = {}): Promise<PostgresSql> {
    const sql = new PostgresSql(url, options);
    try {
      await sql.#migrate(options.migrations);
    } catch (error) {
      await sql.close();
      throw error;
    }
    return sql;
  }

  private constructor(url: string, { busyTimeoutMs = 5_000, maxConnections = 8 }: PostgresOptions) {
    const { host, pathname } = new URL(url);
    this.name = `${host}${pathname}`;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#pool = new pg.Pool({
      connectionString: url,
      max: maxConnections,
      connectionTimeoutMillis: busyTimeoutMs,
      types: {
        getTypeParser: ((oid: number, format?: 'text') =>
          oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
      },
    });
    // Of connections that nobody uses: the next query makes a new one, or says what is wrong.
    this.#pool.on('error', () => {});
  }

  async query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>> {
    this.#refuseWhenClosed();
    try {
      return await this.#run<Row>(this.#pool, statement, parameters);
    } catch (error) {
      throw postgresFault(error, this.name);
    }
  }

  transaction<Result>(body: (queries: Queries) => Promise<Result>, options: TransactionOptions = {}): Promise<Result> {
    const result = this.#last.then(() => this.#transact(body, options));
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** See `Store.trouble`. */
  get trouble(): string | null {
    const waitedMs = this.#waitsSince === null ? 0 : performance.now() - this.#waitsSince;
    if (waitedMs < NOTICEABLE_WAIT_MS) return null;
    return `another process has kept others from writing to the database for ${Math.floor(waitedMs / 1000)} s`;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#last;
    await this.#pool.end();
  }

  async #transact<Result>(
    body: (queries: Queries) => Promise<Result>,
    { isDurable = true }: TransactionOptions,
  ): Promise<Result> {
    this.#refuseWhenClosed();
    let client: pg.PoolClient | null = null;
    let isWhole = false;
    try {
      client = await this.#pool.connect();
      const connection = client;
      connection.on('error', ignore); // the query in hand rejects too, and between queries nobody else would listen
      await connection.query('begin');
      await this.#takeTurn(connection);
      if (!isDurable) await connection.query('set local synchronous_commit = off');
      const result = await body({ query: (statement, parameters) => this.#run(connection, statement, parameters) });
      await connection.query('commit');
      isWhole = true;
      return result;
    } catch (error) {
      isWhole = client !== null && (await rollBack(client));
      throw postgresFault(error, this.name);
    } finally {
      // A connection that could not even roll back is not used again.
      client?.off('error', ignore).release(!isWhole);
    }
  }

  async #takeTurn(connection: pg.PoolClient): Promise<void> {
    this.#waitsSince = performance.now();
    try {
      await connection.query(`set local lock_timeout = ${Math.max(1, Math.ceil(this.#busyTimeoutMs))}`);
      await connection.query(`select pg_advisory_xact_lock(${WRITER_LOCK})`);
    } finally {
      this.#waitsSince = null;
    }
  }

  async #run<Row extends SqlRow>(
    connection: pg.Pool | pg.PoolClient,
    statement: string,
    parameters: readonly SqlParameter[],
  ): Promise<SqlResult<Row>> {
    const { rows, rowCount } = await connection.query<Row>(this.#textOf(statement), [...parameters]);
    return { rows, numChanged: rowCount ?? 0 };
  }

  /** With `$1`, `$2`, … for each `?`; no statement has one in a literal. */
  #textOf(statement: string): string {
    let text = this.#texts.get(statement);
    if (text === undefined) {
      let number = 0;
      text = statement.replaceAll('?', () => `$${++number}`);
      this.#texts.set(statement, text);
    }
    return text;
  }

  async #migrate(migrations: readonly Migration[] | undefined): Promise<void> {
    await this.transaction(async (queries) => {
      await queries.query('create table if not exists schema_version (version bigint not null)', []);
      const { rows } = await queries.query<{ version: number }>('select version from schema_version', []);
      const pending = pendingStatements(this.name, rows[0]?.version ?? 0, POSTGRES_WORDS, migrations);
      if (pending === null) return;
      for (const statements of pending.statements) await queries.query(statements, []);
      const write =
        rows.length === 0 ? 'insert into schema_version values (?)' : 'update schema_version set version = ?';
      await queries.query(write, [pending.newest]);
    });
  }

  #refuseWhenClosed(): void {
    if (this.#isClosed) throw new StoreError('store.closed', `the database ${this.name} is closed`);
  }
}

function ignore(): void {}

/** @returns whether the connection is as it was before the transaction */
async function rollBack(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('rollback');
    return true;
  } catch {
    return false; // the failure that led here says more
  }
}
