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
/** A connection takes its time, however little a call may wait for others. */
const MIN_CONNECT_MS = 5_000;
/**
 * Names the one lock that writers take in turn, among the advisory locks of others: "trainyrd" as a number, and the schema, since such locks are those of a
 * whole database, in which several services may each have a schema of their own.
 */
export const WRITER_LOCK = `hashtextextended(coalesce(current_schema(), ''), 8390876161197568612)`;
/** A wait that is worth telling: other writers are done in milliseconds. */
const NOTICEABLE_WAIT_MS = 1_000;
/** Statements take milliseconds. One that takes so long is ended by the server, and what it held is free for others. */
const STATEMENT_TIMEOUT_MS = 15_000;
/** Where no answer comes at all, not even that of the timeout before: the network is cut, and says nothing. */
const ANSWER_TIMEOUT_MS = 20_000;
/** A new release may rebuild large tables. */
const MIGRATION_TIMEOUT_MS = 3_600_000;
/** The end of the process does not wait longer for a server that does not answer. */
const CLOSE_TIMEOUT_MS = 5_000;

/** By the clock of the server. Behind the lock, as the wait for it may be long. */
const NOW = 'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now';

export interface PostgresOptions {
  /** How long a call waits for a connection or for other writers, default 5000 ms. */
  busyTimeoutMs?: number;
  /** Connections at most, default 8; transactions need one of them, and `watchFeed` has one more. */
  maxConnections?: number;
  /** How long a process may stand still in the middle of a transaction, which keeps all other writers waiting, default 10 s; then the server ends it. */
  idleTransactionMs?: number;
  /** How long the answer to a statement may take where the network is cut, default 20 s. */
  answerTimeoutMs?: number;
  /** For tests of the migrations themselves. */
  migrations?: readonly Migration[];
}

/**
 * One PostgreSQL database, migrated.
 *
 * Writers take turns, over all processes (an advisory lock) as with SQLite: the lifecycles read and then write as if they were alone, and nothing is
 * ever rolled back for having met another. Readers see what is committed and wait for nobody. A server that goes away is `store.unavailable`
 * until it answers again. Nothing but `watchFeed` needs a connection that stays the same between transactions, so a pooler may be in between.
 *
 * Text cannot hold U+0000 there: it becomes U+FFFD, as half of a surrogate pair does in every database.
 */
export class PostgresSql implements Sql {
  /** As messages call it: without the user and its password. */
  readonly name: string;
  readonly #pool: pg.Pool;
  readonly #listener: FeedListener;
  readonly #connection: pg.ClientConfig;
  readonly #busyTimeoutMs: number;
  readonly #idleTransactionMs: number;
  readonly #answerTimeoutMs: number;
  readonly #texts = new Map<string, string>();
  readonly #fullDisk = new FullDisk();
  /** Settles with the last transaction of this process: they wait for one another here rather than each with a connection. */
  #last: Promise<unknown> = Promise.resolve();
  /** How often no answer came. */
  #numSilences = 0;
  /** One question for all who ask at a time. */
  #asking: Promise<boolean> | null = null;
  /** On the clock of `performance.now()`; null when nobody waits for other processes. */
  #waitsSince: number | null = null;
  /** On the clock of `performance.now()`: since when nothing was answered; null when the last call was. */
  #lostSince: number | null = null;
  /** The server's clock, and what `performance.now()` said then. */
  #clock: { now: number; at: number } | null = null;
  #isClosed = false;

  /**
   * @param url such as `postgresql://user:password@host:5432/database`; what it leaves out is taken from the variables of libpq (`PGHOST`, `PGUSER`,
   *   `PGPASSWORD`, `PGPASSFILE` …)
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
   * Looks at a database without bringing it up to date.
   * @returns the version of its schema, 0 for an empty one
   * @throws {StoreError} when it cannot be reached, takes no writes, or is in another encoding
   */
  static async versionOf(url: string): Promise<number> {
    return await PostgresSql.look(url, async (sql) => {
      const { rows } = await sql.query<{ found: string | null }>(`select to_regclass('schema_version') as found`, []);
      if (rows[0]?.found == null) return 0;
      return (await sql.query<{ version: number }>('select version from schema_version', [])).rows[0]?.version ?? 0;
    });
  }

  /**
   * Reads from a database without bringing it up to date.
   * @param read gets the time by the server's clock too
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
    // Of connections that nobody uses: the next query makes a new one, or says what is wrong.
    this.#pool.on('error', () => {});
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

  /** A message there and back, which a read is as well. */
  readonly foreignVersion = null;

  watchFeed(wake: () => void): () => void {
    return this.#listener.add(wake);
  }

  /** See `Store.trouble`. */
  get trouble(): string | null {
    const seconds = (since: number | null) => (since === null ? 0 : performance.now() - since) / 1000;
    const lost = seconds(this.#lostSince);
    if (lost > 0) return `the database has not answered for ${Math.floor(lost)} s`;
    const waited = seconds(this.#waitsSince);
    if (waited * 1000 < NOTICEABLE_WAIT_MS) return this.#fullDisk.trouble;
    return `another process has kept others from writing to the database for ${Math.floor(waited)} s`;
  }

  async isAway(): Promise<boolean> {
    if (this.#isClosed) return false;
    this.#asking ??= databaseAnswers(this.#connection).finally(() => (this.#asking = null));
    return !(await this.#asking);
  }

  /** Autovacuum does. */
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

  /** Behind all transactions of this process. When one of them got no answer, those that wait behind it would wait as long each: they fail with it. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const numSilences = this.#numSilences;
    const result = this.#last.then(() => {
      if (this.#numSilences > numSilences)
        throw new StoreError('store.unavailable', `database ${this.name}: no answer came to a transaction before`);
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
      // A connection that could not even roll back is not used again.
      client?.off('error', ignore).release(!isWhole);
    }
  }

  /** A connection of the pool. Whatever keeps it from being made (names, certificates, passwords) may be mended while the process runs. */
  async #connect(): Promise<pg.PoolClient> {
    try {
      // The query in hand rejects too, and between queries nobody else would listen.
      return (await this.#pool.connect()).on('error', ignore);
    } catch (error) {
      throw connectionFault(error, this.name);
    }
  }

  /**
   * One message to the server: the transaction, how long it may take, its turn among writers, and what time it is then. The level is named since what is
   * read behind the wait must be what others have committed during it, whatever the server's default is.
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

  /** The text of the wire is UTF-8; a database in another encoding would refuse some of it later, and a standby whatever is written. */
  async #refuseUnfit(): Promise<void> {
    const { rows } = await this.query<{ encoding: string; is_standby: number }>(
      `select current_setting('server_encoding') as encoding, pg_is_in_recovery()::int as is_standby`,
      [],
    );
    const refuse = (why: string) => new StoreError('store.unavailable', `database ${this.name} ${why}`);
    if (rows[0]?.encoding !== 'UTF8')
      throw refuse(
        `has the encoding ${rows[0]?.encoding}: make it with "create database … encoding 'UTF8' template template0"`,
      );
    if (rows[0].is_standby !== 0) throw refuse('is a standby, which takes no writes: name the primary');
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
    // A process that was cut off in the middle of a transaction keeps the lock until the server ends it: no reason not to start.
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
 * The name that messages give a database: its host and its name, without the user and its password.
 * @throws {StoreError} `store.unavailable` when the address cannot be read
 */
export function databaseName(url: string): string {
  const address = URL.parse(url);
  if (address === null || hasPartOfPassword(address))
    throw new StoreError('store.unavailable', `the address of the database cannot be read: it is ${ADDRESS_FORM}`);
  return `postgres://${address.host}${address.pathname}`;
}

/** Values as the tables know them, for whoever reads with a connection of its own. */
export const typeParser = ((oid: number, format?: 'text') => {
  if (oid === INT8_OID) return Number;
  const parser = pg.types.getTypeParser(oid, format);
  // Bytes alone in memory of their own, where numbers of any size can be read from them.
  return oid === BYTEA_OID ? (value: string) => Uint8Array.from(parser(value) as Buffer) : parser;
}) as typeof pg.types.getTypeParser;

/** A parameter as it can be stored. */
export function asText(parameter: SqlParameter): SqlParameter {
  return typeof parameter === 'string' && parameter.includes('\0') ? parameter.replaceAll('\0', '\uFFFD') : parameter;
}

function ignore(): void {}

/** The pool waits for it, which its types do not say. */
async function forgetWhenSilent(client: pg.ClientBase): Promise<void> {
  await client.query(FORGET_SILENT_CLIENTS);
}

/** The client gave up waiting; the query may still be under way. Or nobody took a connection, and nobody refused it. */
function isSilence(error: unknown): boolean {
  return error instanceof Error && SILENCES.has(error.message);
}

const SILENCES: ReadonlySet<string> = new Set([
  'Query read timeout',
  'Connection terminated due to connection timeout',
  'timeout expired',
]);

/** @returns whether the connection is as it was before the transaction */
async function rollBack(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('rollback');
    return true;
  } catch {
    return false; // the failure that led here says more
  }
}
