import type { Sql } from '../contract/sql.ts';
import { PostgresSql } from '../drivers/postgres/postgres-sql.ts';
import { SqliteSql } from '../drivers/sqlite/sqlite-sql.ts';
import type { StoreLocation } from '../contract/store-location.ts';

/** Blocks writers, as another process in a transaction, until the result is called. */
export async function holdWriters(location: StoreLocation): Promise<() => Promise<void>> {
  const sql: Sql =
    location.kind === 'sqlite'
      ? new SqliteSql(location.path)
      : await PostgresSql.open(location.url, { maxConnections: 1 });
  const [begun, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const held = sql.transaction(async () => {
    begun.resolve();
    await free.promise;
  });
  await begun.promise;
  return async () => {
    free.resolve();
    await held;
    await sql.close();
  };
}
