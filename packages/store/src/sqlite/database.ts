import { chmodSync, closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { StoreError } from '../errors.ts';
import { LockQueue } from './lock-queue.ts';
import { MIGRATIONS, type Migration } from './migrations/index.ts';
import { sqliteFault } from './sqlite-fault.ts';

export type SqlRow = Record<string, SQLOutputValue>;

/** How long opening waits for another process, which may be migrating. Nothing else runs yet, so the wait may block this thread. */
const OPEN_WAIT_MS = 5_000;
/** A wait that is worth telling: other writers are done in milliseconds. */
const NOTICEABLE_WAIT_MS = 1_000;
/** Who owns the data may read and write it, and nobody else: the database holds prompts, answers and hashes of keys. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

export interface DatabaseOptions {
  /** How long a read or write waits while another process holds the lock, default 5000 ms. The wait blocks nothing. */
  busyTimeoutMs?: number;
  /** For tests of the migrations themselves. */
  migrations?: readonly Migration[];
}

/**
 * One open SQLite file: write-ahead log, `synchronous=FULL`, foreign keys on, checked and migrated.
 *
 * A transaction runs synchronously, so it is never interleaved with another of this process; `BEGIN IMMEDIATE` keeps other processes out.
 * While another process has the lock, `read` and `write` wait without blocking this thread. Statements are prepared once per text.
 */
export class Database {
  readonly path: string;
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly #queue: LockQueue;

  /** @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`, `store.disk_full` */
  constructor(path: string, options: DatabaseOptions = {}) {
    this.path = path;
    this.#queue = new LockQueue(options.busyTimeoutMs ?? 5_000);
    try {
      mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
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
      this.#connection.exec('pragma synchronous = full; pragma journal_mode = wal; pragma trusted_schema = off;');
      this.#check();
      this.#migrate(options.migrations ?? MIGRATIONS);
      // From here on the queue waits, not SQLite.
      this.#connection.exec('pragma busy_timeout = 0');
    } catch (error) {
      this.#connection.close();
      throw sqliteFault(error, path);
    }
  }

  get<Row extends SqlRow>(sql: string, ...parameters: SQLInputValue[]): Row | undefined {
    return this.#prepare(sql).get(...parameters) as Row | undefined;
  }

  all<Row extends SqlRow>(sql: string, ...parameters: SQLInputValue[]): Row[] {
    return this.#prepare(sql).all(...parameters) as Row[];
  }

  /** @returns how many rows changed */
  run(sql: string, ...parameters: SQLInputValue[]): number {
    return Number(this.#prepare(sql).run(...parameters).changes);
  }

  /** Runs `body` without a transaction, for a single statement; again when another process has locked the file. @throws {StoreError} */
  read<Result>(body: () => Result): Promise<Result> {
    return this.#queue.run(() => {
      try {
        return body();
      } catch (error) {
        throw sqliteFault(error, this.path);
      }
    }, true);
  }

  /**
   * Runs `body` in one write transaction: committed when it returns, rolled back when it throws. It begins before this method returns unless
   * another process has the write lock; then it begins later, after those that wait already, and what it changes outside the database
   * must be right also when it runs twice.
   *
   * @throws {StoreError} `store.busy` when the lock is not free in time; after `store.unavailable` the commit may have reached the disk
   */
  write<Result>(body: () => Result): Promise<Result> {
    return this.#queue.run(() => this.#transact(body));
  }

  /** See `Store.trouble`. */
  get trouble(): string | null {
    const waitedMs = this.#queue.waitedMs;
    if (waitedMs < NOTICEABLE_WAIT_MS) return null;
    return `another process has had the lock of the database for ${Math.floor(waitedMs / 1000)} s`;
  }

  close(): void {
    if (this.#connection.isOpen) this.#connection.close();
  }

  #transact<Result>(body: () => Result): Result {
    try {
      this.#prepare('begin immediate').run();
      const result = body();
      this.#prepare('commit').run();
      return result;
    } catch (error) {
      this.#rollBack();
      throw sqliteFault(error, this.path);
    }
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

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#connection.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #check(): void {
    const problems = this.all<{ quick_check: string }>('pragma quick_check(3)').map((row) => row.quick_check);
    if (problems.length === 1 && problems[0] === 'ok') return;
    throw new StoreError(
      'store.corrupt',
      `database ${this.path} is damaged; restore it from a backup (${problems.join('; ')})`,
    );
  }

  #migrate(migrations: readonly Migration[]): void {
    const newest = migrations.at(-1)?.version ?? 0;
    const version = (): number => this.get<{ user_version: number }>('pragma user_version')?.user_version ?? 0;
    if (version() === newest) return;
    this.#transact(() => {
      const current = version(); // again, under the lock: another process may have migrated meanwhile
      if (current > newest) {
        throw new StoreError(
          'store.schema_newer',
          `database ${this.path} has schema version ${current}, this release knows up to ${newest}: run the newer release, or restore a backup`,
        );
      }
      for (const migration of migrations) if (migration.version > current) this.#connection.exec(migration.sql);
      this.#connection.exec(`pragma user_version = ${newest}`);
    });
  }
}

/** The file is made here, or SQLite would make it for all to read; what lies beside it (`-wal`, `-shm`) gets the same mode from SQLite. */
function keepPrivate(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'a', FILE_MODE));
  for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, FILE_MODE);
}
