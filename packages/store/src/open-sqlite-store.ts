import { SqlStore, type SqlStoreOptions } from './sql-store.ts';
import { type SqliteOptions, SqliteSql } from './drivers/sqlite/sqlite-sql.ts';

/**
 * `Store` in one SQLite file: opened, or made with its folder, checked and brought up to date.
 * @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`, `store.disk_full`
 */
export async function openSqliteStore(path: string, options: SqlStoreOptions & SqliteOptions = {}): Promise<SqlStore> {
  return new SqlStore(new SqliteSql(path, options), options);
}
