import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { StoreError } from '../errors.ts';
import { MIGRATIONS, type Migration } from './migrations/index.ts';
import { sqliteFault } from './sqlite-fault.ts';

export type SqlRow = Record<string, SQLOutputValue>;

export interface DatabaseOptions {
  /** How long a write waits for another process, default 5000 ms. The wait blocks this thread. */
  busyTimeoutMs?: number;
  /** For tests of the migrations themselves. */
  migrations?: readonly Migration[];
}

/**
 * One open SQLite file: write-ahead log, `synchronous=FULL`, foreign keys on, checked and migrated.
 *
 * All calls are synchronous, so a transaction of this process is never interleaved with another of its own; `BEGIN IMMEDIATE`
 * keeps other processes out. Statements are prepared once per text.
 */
export class Database {
  readonly path: string;
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  /** @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`, `store.disk_full` */
  constructor(path: string, options: DatabaseOptions = {}) {
    this.path = path;
    try {
      // Only the owner may look inside: the database holds prompts and answers.
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      this.#connection = new DatabaseSync(path, {
        timeout: options.busyTimeoutMs ?? 5000,
        enableForeignKeyConstraints: true,
      });
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

  /** Runs `body` without a transaction, for a single statement. */
  read<Result>(body: () => Result): Result {
    try {
      return body();
    } catch (error) {
      throw sqliteFault(error, this.path);
    }
  }

  /** Runs `body` in one write transaction: committed when it returns, rolled back when it throws. */
  write<Result>(body: () => Result): Result {
    try {
      this.#prepare('begin immediate').run();
      const result = body();
      this.#prepare('commit').run();
      return result;
    } catch (error) {
      // After SQLITE_FULL or an I/O error SQLite has rolled back by itself.
      if (this.#connection.isOpen && this.#connection.isTransaction) this.#connection.exec('rollback');
      throw sqliteFault(error, this.path);
    }
  }

  close(): void {
    if (this.#connection.isOpen) this.#connection.close();
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
    this.write(() => {
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
