import { existsSync, statSync } from 'node:fs';

import type { Queries } from '../contract/sql.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { NEWEST_VERSION } from '../migrations/index.ts';
import { lookAtFile } from './look-at-file.ts';

/**
 * Reads from a database without migrating it, also while services use it.
 *
 * @param read also receives the time on the database's clock
 * @returns null before the first start, and for a database with the schema of another release
 * @throws {StoreError} `store.corrupt`, `store.unavailable`
 */
export async function lookAtDatabase<Result>(
  database: StoreLocation,
  read: (queries: Queries, now: number) => Promise<Result>,
): Promise<Result | null> {
  if (database.kind === 'postgres') {
    const { PostgresSql } = await import('../drivers/postgres/postgres-sql.ts');
    if ((await PostgresSql.versionOf(database.url)) !== NEWEST_VERSION) return null;
    return await PostgresSql.look(database.url, read);
  }
  if (!existsSync(database.path) || statSync(database.path).size === 0) return null;
  return await lookAtFile(database.path, async (queries) => {
    const { rows } = await queries.query<{ user_version: number }>('pragma user_version', []);
    return rows[0]?.user_version === NEWEST_VERSION ? await read(queries, Date.now()) : null;
  });
}
