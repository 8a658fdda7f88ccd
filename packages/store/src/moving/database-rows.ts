import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import { ClosingClient } from '../drivers/postgres/closing-client.ts';
import { connectionString } from '../drivers/postgres/connection-string.ts';
import { StoreError } from '../contract/errors.ts';
import type { SqlRow } from '../contract/sql.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { connectionFault, postgresFault } from '../drivers/postgres/postgres-fault.ts';
import { databaseName, typeParser, WRITER_LOCK } from '../drivers/postgres/postgres-sql.ts';
import { sqliteFault } from '../drivers/sqlite/sqlite-fault.ts';
import { NEWEST_VERSION } from '../migrations/index.ts';
import { selectAll, type TableName } from './table-names.ts';

export const BATCH_ROWS = 200;

/** A database as of one moment, unaffected by later writes. */
export interface DatabaseRows {
  /** Name for messages, without a password. */
  readonly name: string;
  rows(table: TableName): AsyncIterable<SqlRow[]>;
  /** Last value used by each counting key that never reuses one. */
  counters(): Promise<ReadonlyMap<string, number>>;
  close(): Promise<void>;
}

/** @param options.isAlone refuses other writers, and other open connections if they are visible */
export interface RowsOptions {
  readonly isAlone: boolean;
}

/**
 * Opens a database with this release's schema for reading.
 * @throws {StoreError} `store.unavailable` if it is missing, of another version, or in use; `store.corrupt`
 */
export async function openRows(location: StoreLocation, options: RowsOptions): Promise<DatabaseRows> {
  return location.kind === 'sqlite' ? SqliteRows.open(location.path) : await PostgresRows.open(location.url, options);
}

class SqliteRows implements DatabaseRows {
  readonly name: string;
  readonly #connection: DatabaseSync;

  static open(path: string): SqliteRows {
    if (!existsSync(path)) throw new StoreError('store.unavailable', `database ${path} does not exist`);
    try {
      const rows = new SqliteRows(path);
      try {
        rows.#begin();
        return rows;
      } catch (error) {
        rows.#connection.close();
        throw error;
      }
    } catch (error) {
      throw sqliteFault(error, path);
    }
  }

  private constructor(path: string) {
    this.name = path;
    this.#connection = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  }

  #begin(): void {
    const damage = this.#connection.prepare('pragma quick_check(1)').get()?.['quick_check'];
    if (damage !== 'ok') throw new StoreError('store.corrupt', `database ${this.name} is damaged (${String(damage)})`);
    this.#connection.exec('begin');
    // The first read fixes the moment.
    refuseOtherVersions(this.name, Number(this.#connection.prepare('pragma user_version').get()?.['user_version']));
  }

  async *rows(table: TableName): AsyncGenerator<SqlRow[]> {
    let batch: SqlRow[] = [];
    for (const row of this.#connection.prepare(selectAll(table)).iterate()) {
      batch.push(row as SqlRow);
      if (batch.length < BATCH_ROWS) continue;
      yield batch;
      batch = [];
      // Lets signals be handled during a long read.
      await setImmediate();
    }
    if (batch.length > 0) yield batch;
  }

  async counters(): Promise<ReadonlyMap<string, number>> {
    const rows = this.#connection.prepare('select name, seq from sqlite_sequence').all();
    return new Map(rows.map(({ name, seq }) => [String(name), Number(seq)]));
  }

  async close(): Promise<void> {
    this.#connection.close();
  }
}

class PostgresRows implements DatabaseRows {
  readonly name: string;
  readonly #client: pg.Client;

  static async open(url: string, { isAlone }: RowsOptions): Promise<PostgresRows> {
    const rows = await PostgresRows.#connect(url);
    try {
      if (isAlone) await rows.#lockTables();
      await rows.#client.query('begin isolation level repeatable read read only');
      await rows.#client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0');
      const [found] = await rows.#query<{ found: string | null }>(`select to_regclass('schema_version') as found`);
      const [row] =
        found?.found == null ? [] : await rows.#query<{ version: number }>('select version from schema_version');
      refuseOtherVersions(rows.name, row?.version ?? 0);
      return rows;
    } catch (error) {
      await rows.close();
      throw postgresFault(error, rows.name);
    }
  }

  static async #connect(url: string): Promise<PostgresRows> {
    const name = databaseName(url);
    try {
      const rows = new PostgresRows(name, url);
      await rows.#client.connect();
      return rows;
    } catch (error) {
      throw connectionFault(error, name);
    }
  }

  private constructor(name: string, url: string) {
    this.name = name;
    this.#client = new ClosingClient({
      connectionString: connectionString(url),
      application_name: APPLICATION,
      connectionTimeoutMillis: 10_000,
      types: { getTypeParser: typeParser },
    });
    // The current query rejects too.
    this.#client.on('error', () => {});
  }

  /** Makes writers wait until this is closed. */
  async #lockTables(): Promise<void> {
    const [row] = await this.#query<{ others: number; is_free: number }>(
      `select pg_try_advisory_lock(${WRITER_LOCK})::int as is_free, (select count(*) from pg_stat_activity
       where datname = current_database() and application_name = '${SERVICE_APPLICATION}') as others`,
    );
    if (row?.is_free === 1 && row.others === 0) return;
    throw new StoreError(
      'store.unavailable',
      `database ${this.name} is in use (${row?.others ?? 0} connections of services). Stop the services first; their connections close a few seconds later`,
    );
  }

  async *rows(table: TableName): AsyncGenerator<SqlRow[]> {
    await this.#query(`declare ${table}_rows no scroll cursor for ${selectAll(table)}`);
    for (;;) {
      const batch = await this.#query<SqlRow>(`fetch ${BATCH_ROWS} from ${table}_rows`);
      if (batch.length === 0) break;
      yield batch;
    }
    await this.#query(`close ${table}_rows`);
  }

  async counters(): Promise<ReadonlyMap<string, number>> {
    const counters = new Map<string, number>();
    for (const { table_name: table, sequence } of await this.#query<Counter>(POSTGRES_COUNTERS)) {
      const [row] = await this.#query<{ last: number }>(
        `select case when is_called then last_value else 0 end as last from ${sequence}`,
      );
      counters.set(table, row?.last ?? 0);
    }
    return counters;
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }

  async #query<Row extends pg.QueryResultRow>(statement: string): Promise<Row[]> {
    try {
      return (await this.#client.query<Row>(statement)).rows;
    } catch (error) {
      throw postgresFault(error, this.name);
    }
  }
}

/** Application names distinguish copies from services, which must not run during a copy. */
const APPLICATION = 'trainyard db';
const SERVICE_APPLICATION = 'trainyard';

export type Counter = { table_name: string; column_name: string; sequence: string };

/** All counting keys of the schema in use. */
export const POSTGRES_COUNTERS = `select table_name::text as table_name, column_name::text as column_name,
  pg_get_serial_sequence(quote_ident(table_name), column_name) as sequence
  from information_schema.columns where table_schema = current_schema() and is_identity = 'YES'`;

function refuseOtherVersions(name: string, version: number): void {
  const newest = NEWEST_VERSION;
  if (version === newest) return;
  const remedy = version < newest ? 'start its service once with this release' : 'run the newer release';
  throw new StoreError(
    version > newest ? 'store.schema_newer' : 'store.unavailable',
    `database ${name} has schema version ${version}, but this release copies only version ${newest}: ${remedy}`,
  );
}
