import type { Queries, Sql } from './contract/sql.ts';
import type { StoreLocation } from './contract/store-location.ts';
import { lookAtDatabase } from './examining/look-at-database.ts';
import { SqlStore } from './sql-store.ts';

/**
 * Reads from a store without migrating its database or changing anything, also while services use it.
 *
 * @param read receives a store that refuses to write
 * @returns null before the first start, and for a database with the schema of another release
 * @throws {StoreError} `store.corrupt`, `store.unavailable`
 */
export async function lookAtStore<Result>(
  database: StoreLocation,
  read: (store: SqlStore) => Promise<Result>,
): Promise<Result | null> {
  return await lookAtDatabase(database, async (queries, now) => {
    const store = new SqlStore(readOnly(queries, now));
    try {
      return await read(store);
    } finally {
      await store.close();
    }
  });
}

function readOnly(queries: Queries, now: number): Sql {
  return {
    query: (statement, parameters) => queries.query(statement, parameters),
    transaction: () => Promise.reject(new Error('a look at a database writes nothing')),
    now,
    foreignVersion: null,
    watchFeed: () => () => undefined,
    problem: null,
    numLostConnections: 0,
    isAway: async () => false,
    reclaimSpace: async () => undefined,
    close: async () => undefined,
  };
}
