import type { Queries, SqlParameter } from '../contract/sql.ts';

/** Inserts a row as it is, without the tables' code, into a schema of any version. */
export async function insertRow(queries: Queries, table: string, row: Record<string, SqlParameter>): Promise<void> {
  const names = Object.keys(row);
  const marks = names.map(() => '?').join(', ');
  await queries.query(`insert into ${table} (${names.join(', ')}) values (${marks})`, Object.values(row));
}
