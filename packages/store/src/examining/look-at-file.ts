import { DatabaseSync } from 'node:sqlite';
import type { Queries, SqlParameter, SqlResult, SqlRow } from '../contract/sql.ts';
import { sqliteFault } from '../drivers/sqlite/sqlite-fault.ts';

/**
 * Reads from an SQLite file without migrating it, also while a service uses it.
 * @throws {StoreError} `store.corrupt`, `store.unavailable`
 */
export async function lookAtFile<Result>(path: string, read: (queries: Queries) => Promise<Result>): Promise<Result> {
  try {
    using connection = new DatabaseSync(path, { readOnly: true, timeout: 2_000 });
    const queries: Queries = {
      async query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>> {
        return { rows: connection.prepare(statement).all(...parameters) as Row[], numChanged: 0 };
      },
    };
    return await read(queries);
  } catch (error) {
    throw sqliteFault(error, path);
  }
}
