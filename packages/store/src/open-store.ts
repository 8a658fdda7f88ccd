import type { SqlStore, SqlStoreOptions } from './sql-store.ts';
import type { StoreLocation } from './contract/store-location.ts';
import type { SqliteOptions } from './drivers/sqlite/sqlite-sql.ts';
import { openSqliteStore } from './open-sqlite-store.ts';

/**
 * Opens a `Store` in that database and migrates it.
 * @throws {StoreError} `store.corrupt`, `store.schema_newer`, `store.unavailable`, `store.busy`,
 *   `store.disk_full`
 */
export async function openStore(
  location: StoreLocation,
  options: SqlStoreOptions & Pick<SqliteOptions, 'busyTimeoutMs' | 'reservesSpace'> = {},
): Promise<SqlStore> {
  if (location.kind === 'sqlite') return await openSqliteStore(location.path, options);
  // Loads the PostgreSQL client only for such a database.
  const { openPostgresStore } = await import('./open-postgres-store.ts');
  const { url, maxConnections } = location;
  return await openPostgresStore(url, { ...options, ...(maxConnections === undefined ? {} : { maxConnections }) });
}
