import pg from 'pg';
import { ADDRESS_FORM, hasPartOfPassword } from './address-problem.ts';
import { ClosingClient } from './closing-client.ts';
import { connectionString } from './connection-string.ts';
import { StoreError } from '../../contract/errors.ts';
import type { Migration } from '../../migrations/migration.ts';
import { FullDisk } from '../full-disk.ts';
import { pendingStatements } from '../pending-statements.ts';
import type { Queries, Sql, SqlParameter, SqlResult, SqlRow, TransactionOptions } from '../../contract/sql.ts';
import { databaseAnswers } from './database-answers.ts';
import { FeedListener } from './feed-listener.ts';
import { FORGET_SILENT_CLIENTS, KEEP_ALIVE_MS } from './silent-ends.ts';
import { connectionFault, postgresFault } from './postgres-fault.ts';
import { POSTGRES_WORDS } from './postgres-words.ts';

const INT8_OID = 20;
const BYTEA_OID = 17;
/** Minimum time for a connection, even if a call may wait less for others. */
const MIN_CONNECT_MS = 5_000;
/**
 * Advisory lock that writers take in turn: "trainyrd" as a number, and the schema, because advisory locks
 * belong to a whole database, in which several services may each have a schema.
 */
export const WRITER_LOCK = `hashtextextended(coalesce(current_schema(), ''), 8390876161197568612)`;
/** Shortest wait worth reporting: other writers finish in milliseconds. */
const NOTICEABLE_WAIT_MS = 1_000;
/** The server ends a statement after this time and frees its locks. Statements take milliseconds. */
const STATEMENT_TIMEOUT_MS = 15_000;
/** Limit for a cut network, on which not even the server's timeout arrives. */
const ANSWER_TIMEOUT_MS = 20_000;
/** A migration may rebuild large tables. */
const MIGRATION_TIMEOUT_MS = 3_600_000;
/** Limit of the wait for a silent server at the end of the process. */
const CLOSE_TIMEOUT_MS = 5_000;

/** Time on the server's clock. Read after the lock, as the wait for it may be long. */
const NOW = 'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now';

export interface PostgresOptions {
  /** Maximum wait of a call for a connection or for other writers, default 5000 ms. */
  busyTimeoutMs?: number;
  /** Maximum connections, default 8; transactions use one of them, and `watchFeed` one more. */
  maxConnections?: number;
  /**
   * Maximum idle time within a transaction, which blocks all other writers, default 10 s; then the server
   * ends it.
   */
  idleTransactionMs?: number;
  /** Maximum wait for the answer to a statement on a cut network, default 20 s. */
  answerTimeoutMs?: number;
  /** Replaced by tests of the migrations. */
  migrations?: readonly Migration[];
}

/**
 * One PostgreSQL database, migrated.
 *
 * Writers take turns over all processes (an advisory lock), as with SQLite: lifecycles read and write as if
 * they were alone, and no transaction is rolled back because of another. Readers see committed data and never
 * wait. A server that goes away is `store.unavailable` until it answers again. Only `watchFeed` needs a
 * connection that stays the same between transactions, so a pooler may be in between.
 *
 * Text cannot hold U+0000 there: it becomes U+FFFD, as half of a surrogate pair does in every database.
 */
export class PostgresSql implements Sql {
  /** Name for messages: without the user and its password. */
  readonly name: string;
  readonly #pool: pg.Pool;
  readonly #listener: FeedListener;
  readonly #connection: pg.ClientConfig;
  readonly #busyTimeoutMs: number;
  readonly #idleTransactionMs: number;
  readonly #answerTimeoutMs: number;
  readonly #texts = new Map<string, string>();
  readonly #fullDisk = new FullDisk();
  /** Settles with the last transaction of this process: they queue here instead of each on a connection. */
  #last: Promise<unknown> = Promise.resolve();
  /** Number of calls without an answer. */
  #numSilences = 0;
  /** Shared by all concurrent callers. */
  #asking: Promise<boolean> | null = null;
  /** Start of the wait for other processes on the clock of `performance.now()`; null without one. */
  #waitsSince: number | null = null;
  /** Time on the clock of `performance.now()` since which no call was answered; null if the last one was. */
  #lostSince: number | null = null;
  /** Reading of the server's clock, and of `performance.now()` at that time. */
  #clock: { now: number; at: number } | null = null;
  #isClosed = false;
  #numLostConnections = 0;

  /**
   * @param url such as `postgresql://user:password@host:5432/database`; omitted parts come from the variables
   *   of libpq (`PGHOST`, `PGUSER`, `PGPASSWORD`, `PGPASSFILE` …)
   * @throws {StoreError} `store.unavailable`, `store.schema_newer`, `store.busy`, `store.disk_full`
   */
  static async open(url: string, options: PostgresOptions = {}): Promise<PostgresSql> {
    const sql = new PostgresSql(url, options);
    try {
      await sql.#refuseUnfit();
      await sql.#migrate(options.migrations);
    } catch (error) {
      await sql.close();
      throw error;
    }
    return sql;
  }

  /**
   * Reads the schema version of a database without migrating it.
   * @returns the version, 0 for an empty database
   * @throws {StoreError} if it is unreachable, read-only or in another encoding
   */
  static async versionOf(url: string): Promise<number> {
    return await PostgresSql.look(url, async (sql) => {
      const { rows } = await sql.query<{ found: string | null }>(`select to_regclass('schema_version') as found`, []);
      if (rows[0]?.found == null) return 0;
      return (await sql.query<{ version: number }>('select version from schema_version', [])).rows[0]?.version ?? 0;
    });
  }

  /**
   * Reads from a database without migrating it.
   * @param read also receives the time on the server's clock
   * @throws {StoreError} as {@link versionOf}
   */
  static async look<Result>(url: string, read: (queries: Queries, now: number) => Promise<Result>): Promise<Result> {
    const sql = new PostgresSql(url, { maxConnections: 1 });
    try {
      await sql.#refuseUnfit();
      const { rows } = await sql.query<{ now: number }>(NOW, []);
      return await read(sql, rows[0]?.now ?? Date.now());
    } finally {
      await sql.close();
    }
  }

  private constructor(
    url: string,
    {
      busyTimeoutMs = 5_000,
      maxConnections = 8,
      idleTransactionMs = 10_000,
      answerTimeoutMs = ANSWER_TIMEOUT_MS,
    }: PostgresOptions,
  ) {
    this.name = databaseName(url);
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#idleTransactionMs = idleTransactionMs;
    const connection: pg.ClientConfig = {
      connectionString: connectionString(url),
      application_name: 'trainyard',
      connectionTimeoutMillis: Math.max(busyTimeoutMs, MIN_CONNECT_MS),
      query_timeout: answerTimeoutMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    };
    this.#connection = connection;
    this.#pool = new pg.Pool({
      ...connection,
      Client: ClosingClient,
      max: maxConnections,
      onConnect: forgetWhenSilent as (client: pg.ClientBase) => void,
      types: { getTypeParser: typeParser },
    });
    // Errors of idle connections: the next query makes a new one or reports the fault.
    this.#pool.on('error', () => (this.#numLostConnections += 1));
    this.#listener = new FeedListener(connection);
  }

  async query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>> {
    this.#refuseWhenClosed();
    let client: pg.PoolClient | null = null;
    let isSpent = false;
    try {
      client = await this.#connect();
      return this.#answered(await this.#run<Row>(client, statement, parameters));
    } catch (error) {
      isSpent = isSilence(error);
      throw this.#faultOf(error);
    } finally {
      client?.off('error', ignore).release(isSpent);
    }
  }

  transaction<Result>(body: (queries: Queries) => Promise<Result>, options: TransactionOptions = {}): Promise<Result> {
    return this.#inTurn(() => this.#transact(body, { ...options, timeoutMs: STATEMENT_TIMEOUT_MS }));
  }

  get now(): number {
    return this.#clock === null ? Date.now() : Math.round(this.#clock.now + performance.now() - this.#clock.at);
  }

  /** Would cost a round trip, as much as a read. */
  readonly foreignVersion = null;

  watchFeed(wake: () => void): () => void {
    return this.#listener.add(wake);
  }

  /** See `Store.database.problem`. */
  get problem(): string | null {
    const seconds = (since: number | null) => (since === null ? 0 : performance.now() - since) / 1000;
    const lost = seconds(this.#lostSince);
    if (lost > 0) return `the database has not answered for ${Math.floor(lost)} s`;
    const waited = seconds(this.#waitsSince);
    if (waited * 1000 < NOTICEABLE_WAIT_MS) return this.#fullDisk.problem;
    return `another process has blocked writes to the database for ${Math.floor(waited)} s`;
  }

  get numLostConnections(): number {
    return this.#numLostConnections;
  }

  async isAway(): Promise<boolean> {
    if (this.#isClosed) return false;
    this.#asking ??= databaseAnswers(this.#connection).finally(() => (this.#asking = null));
    return !(await this.#asking);
  }

  /** Autovacuum does it. */
  async reclaimSpace(): Promise<void> {}

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#listener.close();
    await this.#last;
    const tooLate = Promise.withResolvers<void>();
    const timer = setTimeout(tooLate.resolve, CLOSE_TIMEOUT_MS);
    await Promise.race([this.#pool.end(), tooLate.promise]);
    clearTimeout(timer);
  }

  /**
   * Runs after all transactions of this process. If one of them gets no answer, those queued after it fail
   * too, instead of each waiting as long.
   */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const numSilences = this.#numSilences;
    const result = this.#last.then(() => {
      if (this.#numSilences > numSilences)
        throw new StoreError('store.unavailable', `database ${this.name}: an earlier transaction got no answer`);
      return work();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #transact<Result>(
    body: (queries: Queries) => Promise<Result>,
    {
      isDurable = true,
      timeoutMs,
      waitMs = this.#busyTimeoutMs,
    }: TransactionOptions & { timeoutMs: number; waitMs?: number },
  ): Promise<Result> {
    this.#refuseWhenClosed();
    let client: pg.PoolClient | null = null;
    let isWhole = false;
    try {
      client = await this.#connect();
      const connection = client;
      await this.#begin(connection, { isDurable, timeoutMs, waitMs });
      const result = await body({
        query: (statement, parameters) => this.#run(connection, statement, parameters, timeoutMs),
      });
      await connection.query('commit');
      isWhole = true;
      this.#fullDisk.written();
      return this.#answered(result);
    } catch (error) {
      // A connection that did not answer would not answer this either.
      isWhole = client !== null && !isSilence(error) && (await rollBack(client));
      throw this.#faultOf(error);
    } finally {
      // A connection that could not roll back is not used again.
      client?.off('error', ignore).release(!isWhole);
    }
  }

  /**
   * Takes a connection of the pool. Faults of making one (names, certificates, passwords) may be fixed while
   * the process runs.
   */
  async #connect(): Promise<pg.PoolClient> {
    try {
      // The current query rejects too, and between queries there is no other listener.
      return (await this.#pool.connect()).on('error', ignore);
    } catch (error) {
      throw connectionFault(error, this.name);
    }
  }

  /**
   * Sends in one message: the start of the transaction, its time limits, the lock of writers, a reading of
   * the clock. The isolation level is explicit, because reads after the wait must see commits made during it,
   * with any server default.
   */
  async #begin(
    connection: pg.PoolClient,
    { isDurable, timeoutMs, waitMs }: { isDurable: boolean; timeoutMs: number; waitMs: number },
  ): Promise<void> {
    const settings = {
      lock_timeout: Math.max(1, Math.ceil(waitMs)),
      statement_timeout: timeoutMs,
      idle_in_transaction_session_timeout: this.#idleTransactionMs,
      ...(isDurable ? {} : { synchronous_commit: 'off' }),
    };
    const begin = [
      'begin isolation level read committed',
      ...Object.entries(settings).map(([name, value]) => `set local ${name} = ${value}`),
      `select pg_advisory_xact_lock(${WRITER_LOCK})`,
      NOW,
    ].join('; ');
    this.#waitsSince = performance.now();
    try {
      const results = (await connection.query<{ now: number }>(begin)) as unknown as pg.QueryResult<{ now: number }>[];
      const now = results.at(-1)?.rows[0]?.now;
      if (now !== undefined) this.#clock = { now, at: performance.now() };
    } finally {
      this.#waitsSince = null;
    }
  }

  async #run<Row extends SqlRow>(
    connection: pg.PoolClient,
    statement: string,
    parameters: readonly SqlParameter[],
    timeoutMs: number = STATEMENT_TIMEOUT_MS,
  ): Promise<SqlResult<Row>> {
    const query = {
      text: this.#textOf(statement),
      values: parameters.map(asText),
      query_timeout: Math.max(timeoutMs - STATEMENT_TIMEOUT_MS, 0) + this.#answerTimeoutMs,
    };
    const { rows, rowCount } = await connection.query<Row>(query);
    return { rows, numChanged: rowCount ?? 0 };
  }

  /** Replaces each `?` by `$1`, `$2`, …; no statement has one in a literal. */
  #textOf(statement: string): string {
    let text = this.#texts.get(statement);
    if (text === undefined) {
      let number = 0;
      text = statement.replaceAll('?', () => `$${++number}`);
      this.#texts.set(statement, text);
    }
    return text;
  }

  /**
   * Refuses databases that would fail later: the connection uses UTF-8, parts of which another encoding would
   * refuse, and a standby takes no writes.
   */
  async #refuseUnfit(): Promise<void> {
    const { rows } = await this.query<{ encoding: string; is_standby: number }>(
      `select current_setting('server_encoding') as encoding, pg_is_in_recovery()::int as is_standby`,
      [],
    );
    const refuse = (why: string) => new StoreError('store.unavailable', `database ${this.name} ${why}`);
    if (rows[0]?.encoding !== 'UTF8')
      throw refuse(
        `has the encoding ${rows[0]?.encoding}. Create it with "create database … encoding 'UTF8' template template0"`,
      );
    if (rows[0].is_standby !== 0) throw refuse('is a standby, which accepts no writes. Use the address of the primary');
  }

  async #migrate(migrations: readonly Migration[] | undefined): Promise<void> {
    const migrate = async (queries: Queries) => {
      await queries.query('create table if not exists schema_version (version bigint not null)', []);
      const { rows } = await queries.query<{ version: number }>('select version from schema_version', []);
      const pending = pendingStatements(this.name, rows[0]?.version ?? 0, POSTGRES_WORDS, migrations);
      if (pending === null) return;
      for (const statements of pending.statements) await queries.query(statements, []);
      const write =
        rows.length === 0 ? 'insert into schema_version values (?)' : 'update schema_version set version = ?';
      await queries.query(write, [pending.newest]);
    };
    // A process cut off within a transaction keeps the lock until the server ends it; the start waits for
    // that.
    const waitMs = Math.max(this.#busyTimeoutMs, this.#idleTransactionMs + MIN_CONNECT_MS);
    await this.#inTurn(() => this.#transact(migrate, { timeoutMs: MIGRATION_TIMEOUT_MS, waitMs }));
  }

  #answered<Result>(result: Result): Result {
    this.#lostSince = null;
    return result;
  }

  #faultOf(error: unknown): unknown {
    if (isSilence(error) || (error instanceof StoreError && isSilence(error.cause))) this.#numSilences += 1;
    const fault = postgresFault(error, this.name);
    if (fault instanceof StoreError && fault.code === 'store.unavailable') this.#lostSince ??= performance.now();
    this.#fullDisk.failed(fault);
    return fault;
  }

  #refuseWhenClosed(): void {
    if (this.#isClosed) throw new StoreError('store.closed', `the database ${this.name} is closed`);
  }
}

/**
 * Name of a database for messages: host and database, without the user and its password.
 * @throws {StoreError} `store.unavailable` if the address cannot be parsed
 */
export function databaseName(url: string): string {
  const address = URL.parse(url);
  if (address === null || hasPartOfPassword(address))
    throw new StoreError('store.unavailable', `the address of the database is not valid; expected ${ADDRESS_FORM}`);
  return `postgres://${address.host}${address.pathname}`;
}

/** Parser of values as the tables expect them, for readers with their own connection. */
export const typeParser = ((oid: number, format?: 'text') => {
  if (oid === INT8_OID) return Number;
  const parser = pg.types.getTypeParser(oid, format);
  // Copies bytes into a separate buffer, so that numbers of any size can be read from them.
  return oid === BYTEA_OID ? (value: string) => Uint8Array.from(parser(value) as Buffer) : parser;
}) as typeof pg.types.getTypeParser;

export function asText(parameter: SqlParameter): SqlParameter {
  return typeof parameter === 'string' && parameter.includes('\0') ? parameter.replaceAll('\0', '\uFFFD') : parameter;
}

function ignore(): void {}

/** The pool waits for it, although its types do not show that. */
async function forgetWhenSilent(client: pg.ClientBase): Promise<void> {
  await client.query(FORGET_SILENT_CLIENTS);
}

/**
 * True if the client gave up waiting (the query may still be running), or no connection was accepted or
 * refused.
 */
function isSilence(error: unknown): boolean {
  return error instanceof Error && SILENCES.has(error.message);
}

const SILENCES: ReadonlySet<string> = new Set([
  'Query read timeout',
  'Connection terminated due to connection timeout',
  'timeout expired',
]);

/** @returns true if the connection is as before the transaction */
async function rollBack(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('rollback');
    return true;
  } catch {
    return false; // the original failure is more informative
  }
}
