import { SqlStore, type SqlStoreOptions } from './sql-store.ts';
import { type PostgresOptions, PostgresSql } from './drivers/postgres/postgres-sql.ts';

/**
 * Opens a `Store` in one PostgreSQL database and migrates it.
 * @throws {StoreError} `store.unavailable`, `store.schema_newer`, `store.busy`, `store.disk_full`
 */
export async function openPostgresStore(
  url: string,
  options: SqlStoreOptions & PostgresOptions = {},
): Promise<SqlStore> {
  return new SqlStore(await PostgresSql.open(url, options), options);
}
