import pg from 'pg';

import { typeParser } from '../drivers/postgres/postgres-sql.ts';

/** One connection to a schema that bypasses the store. */
export class SchemaConnection {
  readonly #client: pg.Client;

  /** @param url of a schema of a `PostgresCluster` */
  static async open(url: string): Promise<SchemaConnection> {
    const client = new pg.Client({ connectionString: url, types: { getTypeParser: typeParser } });
    await client.connect();
    return new SchemaConnection(client);
  }

  /** Lets the process end before it is closed. */
  unref(): void {
    // The server may end first.
    this.#client.on('error', () => {});
    // Its types lack it.
    (this.#client as unknown as { unref(): void }).unref();
  }

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  async query<Row extends Record<string, unknown>>(statement: string): Promise<Row[]> {
    return (await this.#client.query<Row>(statement)).rows;
  }

  /** Empties every table of a migrated schema and removes copies of rows. */
  async emptyTables(): Promise<void> {
    await this.query(`drop schema if exists ${await this.#copies()} cascade`);
    const tables = await this.#tables();
    await this.query(`truncate ${tables.join(', ')} restart identity`);
  }

  /** Copies all present rows under a name, until the tables are emptied. */
  async keepRows(name: string): Promise<void> {
    const copies = await this.#copies();
    const statements = (await this.#tables()).map(
      (table) => `create table ${copies}.${name}_${table} as table ${table};`,
    );
    await this.query(`create schema if not exists ${copies}`);
    await this.query(`begin isolation level repeatable read; ${statements.join(' ')} commit`);
  }

  /** Replaces all rows by those copied under that name, or by none. Triggers do not run. */
  async putRowsBack(name: string | null): Promise<void> {
    const [tables, copies] = [await this.#tables(), await this.#copies()];
    const inserts = tables.map(
      (table) => `insert into ${table} overriding system value table ${copies}.${name}_${table};`,
    );
    await this.query(
      `begin; set local session_replication_role = replica; truncate ${tables.join(', ')}; ${name === null ? '' : inserts.join(' ')} commit`,
    );
  }

  async #copies(): Promise<string> {
    const [row] = await this.query<{ name: string }>('select current_schema() as name');
    return `${row?.name}_copies`;
  }

  async #tables(): Promise<string[]> {
    const rows = await this.query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = current_schema() and tablename <> 'schema_version'`,
    );
    return rows.map(({ name }) => name);
  }

  async close(): Promise<void> {
    await this.#client.end();
  }
}

/** Rows of a statement, read with a separate connection. @param url of a `PostgresCluster` or a schema */
export async function queryServer<Row extends Record<string, unknown>>(url: string, statement: string): Promise<Row[]> {
  const connection = await SchemaConnection.open(url);
  try {
    return await connection.query<Row>(statement);
  } finally {
    await connection.close();
  }
}
