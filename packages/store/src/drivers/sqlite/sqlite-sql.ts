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

/** How long opening waits for another process, which may be migrating. Nothing else runs yet, so the wait may block this thread. */
const OPEN_WAIT_MS = 5_000;
/** A wait that is worth telling: other writers are done in milliseconds. */
const NOTICEABLE_WAIT_MS = 1_000;
/** Who owns the data may read and write it, and nobody else: the database holds prompts, answers and hashes of keys. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
/** 4 MB: some milliseconds. */
const PAGES_AT_ONCE = 1_000;
/** Some ten seconds of a start. */
const MAX_REWRITTEN_BYTES = 2e9;

export interface SqliteOptions {
  /** How long a read or write waits while another process holds the lock, default 5000 ms. The wait blocks nothing. */
  busyTimeoutMs?: number;
  /** Keeps disk space for writes that must not fail when the disk is full. Default false. */
  reservesSpace?: boolean;
  /** For tests of the migrations themselves. */
  migrations?: readonly Migration[];
}

/**
 * One open SQLite file: write-ahead log, `synchronous=FULL`, foreign keys on, checked and migrated.
 *
 * There is one connection, and each statement runs at once on this thread. So transactions take turns; what is asked outside of them comes between
 * them and never sees a half of one. `BEGIN IMMEDIATE` keeps other processes out; while one of those has the lock, transactions wait
 * without blocking this thread. Statements are prepared once per text.
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
  /** Something was added to the feed since the last commit. */
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
      // Of a new file; one that is there keeps its own until it is rewritten.
      this.#connection.exec('pragma auto_vacuum = incremental;');
      this.#connection.exec('pragma synchronous = full; pragma journal_mode = wal; pragma trusted_schema = off;');
      this.#check();
      this.#migrate(options.migrations);
      this.#prepareReclaiming();
      this.#hearOfFeed();
      // From here on the queue waits, not SQLite.
      this.#connection.exec('pragma busy_timeout = 0');
      this.#version = this.#connection.prepare('pragma data_version');
      this.#version.setReturnArrays(true);
      this.#reserve?.take();
    } catch (error) {
      this.#connection.close();
      throw sqliteFault(error, path);
    }
  }

  /** A statement of its own, again when another process has locked the file. */
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

  /** Begins before this method returns, unless another transaction is in progress or another process has the write lock. */
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

  /** Free pages at the end of the file go, in parts of a few milliseconds; then the log is written back and cut off. */
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

  /** The clock of this machine, as whoever opens the file is on it too. */
  get now(): number {
    return Date.now();
  }

  /** A look at the head of the log: an eighth of what the shortest statement takes. */
  get foreignVersion(): number | null {
    try {
      // A row as an array is half the work of one as an object, for what every request asks.
      const [version] = this.#version.get() as unknown as readonly [number];
      return version;
    } catch {
      return null;
    }
  }

  /** Wakes for what this process adds; SQLite tells of no other's, which have to be looked for. */
  watchFeed(wake: () => void): () => void {
    // Each its own, also where two are the same function.
    const own = () => wake();
    this.#wakes.add(own);
    return () => void this.#wakes.delete(own);
  }

  /** See `Store.trouble`. */
  get trouble(): string | null {
    const waitedMs = this.#queue.waitedMs;
    if (waitedMs < NOTICEABLE_WAIT_MS) return this.#fullDisk.trouble;
    return `another process has had the lock of the database for ${Math.floor(waitedMs / 1000)} s`;
  }

  /** It is a file. */
  async isAway(): Promise<boolean> {
    return false;
  }

  async close(): Promise<void> {
    await this.#queue.settle();
    this.#wakes.clear();
    if (this.#connection.isOpen) this.#connection.close();
  }

  /** @throws {StoreError} at once: nothing has begun then */
  #begin(isDurable: boolean): void {
    try {
      // Without the wait for the disk the log has it all the same: it goes there with the next commit that waits, or when the system writes.
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

  /** Once more, with a part of the reserved space, when the disk was full. */
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
   * Rewrites a file of before, whose free pages could not be given back. It takes as much room again; where that or the lock is not to be had, the
   * file stays as it is until a later start.
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

  /** A trigger of this connection alone, which no other process has and which is gone with it. */
  #hearOfFeed(): void {
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
    // Behind whoever waits for the commit.
    setImmediate(() => {
      this.#willWake = false;
      for (const wake of this.#wakes) wake();
    });
  }

  #rollBack(): void {
    // After SQLITE_FULL or an I/O error SQLite has rolled back by itself.
    if (!this.#connection.isOpen || !this.#connection.isTransaction) return;
    try {
      this.#connection.exec('rollback');
    } catch {
      // The failure that led here says more.
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
    // A table that is made anew would take with it what points to it; that all of it points somewhere is seen below.
    this.#connection.exec('pragma foreign_keys = off');
    this.#run('begin immediate');
    try {
      const change = pending(); // again, under the lock: another process may have migrated meanwhile
      for (const statements of change?.statements ?? []) this.#connection.exec(statements);
      const [fault] = this.#run('pragma foreign_key_check').rows;
      if (fault !== undefined) throw new Error(`a row points nowhere after the migration: ${JSON.stringify(fault)}`);
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

/** The file is made here, or SQLite would make it for all to read; what lies beside it (`-wal`, `-shm`) gets the same mode from SQLite. */
function keepPrivate(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'a', FILE_MODE));
  for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, FILE_MODE);
}
