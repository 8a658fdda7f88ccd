import type { SqlRow, SqlValue, Statements } from '../contract/sql.ts';

/** A statement stays prepared for each number of ids. */
const IDS_AT_A_TIME = 100;

/**
 * Values of several rows for one statement; `row` is one of them, such as `(?, ?)`. A statement stays
 * prepared for each number of rows.
 */
export function rowsOf(number: number, row: string): string {
  return Array.from({ length: number }, () => row).join(', ');
}

/**
 * Yields all rows in order, in parts of `size`. All writers wait during a transaction, and each statement is
 * a network round trip.
 */
export function* partsOf<Row>(rows: readonly Row[], size: number): Generator<Row[]> {
  for (let first = 0; first < rows.length; first += size) yield rows.slice(first, first + size);
}

/**
 * Runs a statement on many ids, a hundred at a time.
 *
 * @param statement receives the placeholders of the ids
 * @param others values of its other placeholders, before and after those of the ids
 */
export async function rowsOfIds<Row extends SqlRow>(
  sql: Statements,
  ids: readonly (string | number)[],
  statement: (marks: string) => string,
  { before = [], after = [] }: { readonly before?: readonly SqlValue[]; readonly after?: readonly SqlValue[] } = {},
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const some of partsOf(ids, IDS_AT_A_TIME))
    rows.push(...(await sql.all<Row>(statement(rowsOf(some.length, '?')), ...before, ...some, ...after)));
  return rows;
}
