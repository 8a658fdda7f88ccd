import { chmodSync, closeSync, existsSync, openSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { StoreError } from '../../contract/errors.ts';
import { DAMAGE_REMEDIES } from '../damage-remedies.ts';
import { FullDisk } from '../full-disk.ts';
import { makeFolders } from '../../folders/make-folders.ts';
import { LockQueue } from './lock-queue.ts';
import type { Migration } from '../../migrations/migration.ts';
import { pendingStatements } from '../pending-statements.ts';
import type { Queries, Sql, SqlResult, SqlRow, SqlParameter, TransactionOptions } from '../../contract/sql.ts';
import { sqliteFault } from './sqlite-fault.ts';
import { SpaceReserve } from './space-reserve.ts';
import { SQLITE_WORDS } from './sqlite-words.ts';

/**
 * Maximum wait at opening for another process, which may be migrating. The wait may block this thread,
 * because no other work runs yet.
 */
const OPEN_WAIT_MS = 5_000;
/** Shortest wait worth reporting: other writers finish in milliseconds. */
const NOTICEABLE_WAIT_MS = 1_000;
/** Only the owner may read or write: the database holds prompts, answers and hashes of keys. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
/** 4 MB, a few milliseconds. */
const PAGES_AT_ONCE = 1_000;
/** About ten seconds of a start. */
const MAX_REWRITTEN_BYTES = 2e9;

export interface SqliteOptions {
  /**
   * Maximum wait of a read or write for another process's lock, default 5000 ms. Does not block this thread.
   */
  busyTimeoutMs?: number;
  /** Reserves disk space for writes that must not fail on a full disk. Default false. */
  reservesSpace?: boolean;
  /** Replaced by tests of the migrations. */
  migrations?: readonly Migration[];
}

/**
 * One open SQLite file: write-ahead log, `synchronous=FULL`, foreign keys on, checked and migrated.
 *
 * It has one connection, and each statement runs synchronously on this thread. So transactions take turns;
 * other statements run between them and never see a partial one. `BEGIN IMMEDIATE` keeps other processes out;
 * while one of those has the lock, transactions wait without blocking this thread. Statements are prepared
 * once per text.
 */
export class SqliteSql implements Sql {
  readonly path: string;
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, Prepared>();
  readonly #version: StatementSync;
  readonly #queue: LockQueue;
  readonly #wakes = new Set<() => void>();
  readonly #fullDisk = new FullDisk();
  readonly #reserve: SpaceReserve | null;
  #synchronous: 'full' | 'normal' = 'full';
  /** True if the feed has grown since the last commit. */
  #hasNews = false;
  #willWake = false;
  readonly #inTransaction: Queries = {
    query: <Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]) => {
      try {
        return Promise.resolve(this.#run<Row>(statement, parameters));
      } catch (error) {
        return Promise.reject(error as Error);
      }
    },
  };

  /** @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`, `store.disk_full` */
  constructor(path: string, options: SqliteOptions = {}) {
    this.path = path;
    this.#queue = new LockQueue(options.busyTimeoutMs ?? 5_000);
    this.#reserve = options.reservesSpace === true ? new SpaceReserve(path) : null;
    try {
      makeFolders(dirname(path), FOLDER_MODE);
      keepPrivate(path);
      this.#connection = new DatabaseSync(path, { timeout: OPEN_WAIT_MS, enableForeignKeyConstraints: true });
    } catch (error) {
      if (error instanceof Error && 'errcode' in error) throw sqliteFault(error, path);
      throw new StoreError(
        'store.unavailable',
        `database ${path}: cannot be created (${error instanceof Error ? error.message : String(error)})`,
        { cause: error },
      );
    }
    try {
      // Applies to a new file; an existing one keeps its setting until it is rewritten.
      this.#connection.exec('pragma auto_vacuum = incremental;');
      this.#connection.exec('pragma synchronous = full; pragma journal_mode = wal; pragma trusted_schema = off;');
      this.#check();
      this.#migrate(options.migrations);
      this.#prepareReclaiming();
      this.#pollFeed();
      // From here on the queue waits instead of SQLite.
      this.#connection.exec('pragma busy_timeout = 0');
      this.#version = this.#connection.prepare('pragma data_version');
      this.#version.setReturnArrays(true);
      this.#reserve?.take();
    } catch (error) {
      this.#connection.close();
      throw sqliteFault(error, path);
    }
  }

  /** Runs one statement; retries while another process has locked the file. */
  query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>> {
    return this.#queue.runNext(() => {
      try {
        const result = this.#run<Row>(statement, parameters);
        this.#committed();
        return result;
      } catch (error) {
        throw this.#faultOf(error);
      }
    });
  }

  /**
   * Starts before this method returns, unless another transaction is in progress or another process has the
   * write lock.
   */
  transaction<Result>(
    body: (queries: Queries) => Promise<Result>,
    { isDurable = true, spendsReserve = false }: TransactionOptions = {},
  ): Promise<Result> {
    return this.#queue.run(() => {
      this.#begin(isDurable);
      const finished = this.#finish(body);
      return spendsReserve ? finished.catch((error: unknown) => this.#finishOnReserve(body, error)) : finished;
    });
  }

  /**
   * Removes free pages at the end of the file, in parts of a few milliseconds, then writes back and truncates
   * the log.
   */
  async reclaimSpace(): Promise<void> {
    const numFree = (): number => this.#number('pragma freelist_count');
    if ((await this.#queue.runNext(numFree)) === 0) return;
    for (let before = Infinity, free = numFree(); free > 0 && free < before;) {
      before = free;
      free = await this.#queue.runNext(() => {
        this.#connection.exec(`pragma incremental_vacuum(${PAGES_AT_ONCE})`);
        return numFree();
      });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await this.#queue.runNext(() => this.#connection.exec('pragma wal_checkpoint(truncate)'));
  }

  /** This machine's clock, which every process with the file shares. */
  get now(): number {
    return Date.now();
  }

  /** Reads the head of the log: an eighth of the time of the shortest statement. */
  get foreignVersion(): number | null {
    try {
      // An array row takes half the time of an object, and every request reads this.
      const [version] = this.#version.get() as unknown as readonly [number];
      return version;
    } catch {
      return null;
    }
  }

  /** Wakes for additions of this process; SQLite does not report those of others, which need polling. */
  watchFeed(wake: () => void): () => void {
    // Unique per call, even for the same function.
    const own = () => wake();
    this.#wakes.add(own);
    return () => void this.#wakes.delete(own);
  }

  readonly numLostConnections = 0;

  /** See `Store.database.problem`. */
  get problem(): string | null {
    const waitedMs = this.#queue.waitedMs;
    if (waitedMs < NOTICEABLE_WAIT_MS) return this.#fullDisk.problem;
    return `another process has held the lock of the database for ${Math.floor(waitedMs / 1000)} s`;
  }

  /** Never: the database is a file. */
  async isAway(): Promise<boolean> {
    return false;
  }

  async close(): Promise<void> {
    await this.#queue.settle();
    this.#wakes.clear();
    if (this.#connection.isOpen) this.#connection.close();
  }

  /** @throws {StoreError} at once, before anything has started */
  #begin(isDurable: boolean): void {
    try {
      // Without the wait for the disk the commit is in the log all the same. It reaches the disk with the
      // next commit that waits, or when the system writes.
      this.#setSynchronous(isDurable ? 'full' : 'normal');
      this.#run('begin immediate');
    } catch (error) {
      throw this.#faultOf(error);
    }
  }

  async #finish<Result>(body: (queries: Queries) => Promise<Result>): Promise<Result> {
    try {
      const result = await body(this.#inTransaction);
      this.#run('commit');
      this.#fullDisk.written();
      this.#reserve?.take();
      this.#committed();
      return result;
    } catch (error) {
      this.#hasNews = false;
      this.#rollBack();
      throw this.#faultOf(error);
    }
  }

  /** Repeats the transaction with a part of the reserved space if the disk was full. */
  async #finishOnReserve<Result>(body: (queries: Queries) => Promise<Result>, error: unknown): Promise<Result> {
    if (!(error instanceof StoreError) || error.code !== 'store.disk_full' || this.#reserve?.release() !== true)
      throw error;
    this.#begin(true);
    return await this.#finish(body);
  }

  #faultOf(error: unknown): unknown {
    const fault = sqliteFault(error, this.path);
    this.#fullDisk.failed(fault);
    return fault;
  }

  #setSynchronous(level: 'full' | 'normal'): void {
    if (this.#synchronous === level) return;
    this.#run(`pragma synchronous = ${level}`);
    this.#synchronous = level;
  }

  /**
   * Rewrites a file of an earlier release, which cannot give back free pages. This needs as much room again;
   * without it, or without the lock, the file stays as it is until a later start.
   */
  #prepareReclaiming(): void {
    if (this.#number('pragma auto_vacuum') !== 0) return;
    const numBytes = this.#number('pragma page_count') * this.#number('pragma page_size');
    const { bavail, bsize } = statfsSync(dirname(this.path));
    if (numBytes > MAX_REWRITTEN_BYTES || bavail * bsize < 3 * numBytes) return;
    try {
      this.#connection.exec('pragma auto_vacuum = incremental; vacuum; pragma wal_checkpoint(truncate);');
    } catch (error) {
      if (!['store.busy', 'store.disk_full'].includes((sqliteFault(error, this.path) as { code?: string }).code ?? ''))
        throw error;
    }
  }

  #number(statement: string): number {
    return Number(Object.values(this.#run(statement).rows[0] ?? { none: 0 })[0]);
  }

  /** Adds a trigger of this connection: no other process has it, and it ends with the connection. */
  #pollFeed(): void {
    if (this.#run("select 1 from sqlite_schema where name = 'feed'").rows.length === 0) return;
    this.#connection.function('trainyard_tell', () => {
      this.#hasNews = true;
      return null;
    });
    this.#connection.exec('create temp trigger feed_told after insert on main.feed begin select trainyard_tell(); end');
  }

  #committed(): void {
    if (!this.#hasNews) return;
    this.#hasNews = false;
    if (this.#willWake || this.#wakes.size === 0) return;
    this.#willWake = true;
    // After the callers that wait for the commit.
    setImmediate(() => {
      this.#willWake = false;
      for (const wake of this.#wakes) wake();
    });
  }

  #rollBack(): void {
    // After SQLITE_FULL or an I/O error SQLite has already rolled back.
    if (!this.#connection.isOpen || !this.#connection.isTransaction) return;
    try {
      this.#connection.exec('rollback');
    } catch {
      // The original failure is more informative.
    }
  }

  #run<Row extends SqlRow>(sql: string, parameters: readonly SqlParameter[] = []): SqlResult<Row> {
    let prepared = this.#statements.get(sql);
    if (prepared === undefined) {
      const statement = this.#connection.prepare(sql);
      prepared = { statement, hasRows: statement.columns().length > 0 };
      this.#statements.set(sql, prepared);
    }
    const { statement, hasRows } = prepared;
    if (hasRows) return { rows: statement.all(...parameters) as Row[], numChanged: 0 };
    return { rows: [], numChanged: Number(statement.run(...parameters).changes) };
  }

  #check(): void {
    const problems = this.#run<{ quick_check: string }>('pragma quick_check(3)').rows.map((row) => row.quick_check);
    if (problems.length === 1 && problems[0] === 'ok') return;
    throw new StoreError(
      'store.corrupt',
      `database ${this.path} is damaged (${problems.join('; ')}). ${DAMAGE_REMEDIES}.`,
    );
  }

  #migrate(migrations?: readonly Migration[]): void {
    const pending = () => {
      const version = this.#run<{ user_version: number }>('pragma user_version').rows[0]?.user_version ?? 0;
      return pendingStatements(this.path, version, SQLITE_WORDS, migrations);
    };
    if (pending() === null) return;
    // Rebuilding a table would delete the rows that refer to it. Their references are checked below.
    this.#connection.exec('pragma foreign_keys = off');
    this.#run('begin immediate');
    try {
      const change = pending(); // again, under the lock: another process may have migrated meanwhile
      for (const statements of change?.statements ?? []) this.#connection.exec(statements);
      const [fault] = this.#run('pragma foreign_key_check').rows;
      if (fault !== undefined)
        throw new Error(`a row references a missing row after the migration: ${JSON.stringify(fault)}`);
      if (change !== null) this.#connection.exec(`pragma user_version = ${change.newest}`);
      this.#run('commit');
    } catch (error) {
      this.#rollBack();
      throw error;
    }
    this.#connection.exec('pragma foreign_keys = on');
  }
}

interface Prepared {
  readonly statement: StatementSync;
  readonly hasRows: boolean;
}

/**
 * Creates the file, which SQLite would make readable for all. SQLite gives its companions (`-wal`, `-shm`)
 * the same mode.
 */
function keepPrivate(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'a', FILE_MODE));
  for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, FILE_MODE);
}
