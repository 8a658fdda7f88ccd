import { SqlStore, type SqlStoreOptions } from './sql-store.ts';
import { type SqliteOptions, SqliteSql } from './drivers/sqlite/sqlite-sql.ts';

/**
 * Opens a `Store` in one SQLite file: creates it with its folder if missing, checks and migrates it.
 * @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`,
 *   `store.disk_full`
 */
export async function openSqliteStore(path: string, options: SqlStoreOptions & SqliteOptions = {}): Promise<SqlStore> {
  return new SqlStore(new SqliteSql(path, options), options);
}
