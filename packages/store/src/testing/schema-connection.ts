import pg from 'pg';

import { typeParser } from '../drivers/postgres/postgres-sql.ts';

/** One connection to a schema, past everything that the store does. */
export class SchemaConnection {
  readonly #client: pg.Client;

  /** @param url of a schema of a `PostgresCluster` */
  static async open(url: string): Promise<SchemaConnection> {
    const client = new pg.Client({ connectionString: url, types: { getTypeParser: typeParser } });
    await client.connect();
    return new SchemaConnection(client);
  }

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  async query<Row extends Record<string, unknown>>(statement: string): Promise<Row[]> {
    return (await this.#client.query<Row>(statement)).rows;
  }

  /** Every table of a schema that is up to date is empty again. */
  async emptyTables(): Promise<void> {
    const tables = await this.query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = current_schema() and tablename <> 'schema_version'`,
    );
    await this.query(`truncate ${tables.map(({ name }) => name).join(', ')} restart identity`);
  }

  async close(): Promise<void> {
    await this.#client.end();
  }
}

/** Rows of a statement, read with a connection of its own. @param url of a `PostgresCluster` or a schema */
export async function queryServer<Row extends Record<string, unknown>>(url: string, statement: string): Promise<Row[]> {
  const connection = await SchemaConnection.open(url);
  try {
    return await connection.query<Row>(statement);
  } finally {
    await connection.close();
  }
}
