import type { SqlRow, SqlValue, Statements } from '../contract/sql.ts';

/** One statement a number is kept prepared. */
const IDS_AT_A_TIME = 100;

/** The values of so many rows, for one statement: `row` is those of one, such as `(?, ?)`. A statement is kept prepared for each number of them. */
export function rowsOf(number: number, row: string): string {
  return Array.from({ length: number }, () => row).join(', ');
}

/** All of them, in their order, so many at a time. All writers wait while a transaction lasts, and a statement is a message to another machine and back. */
export function* partsOf<Row>(rows: readonly Row[], size: number): Generator<Row[]> {
  for (let first = 0; first < rows.length; first += size) yield rows.slice(first, first + size);
}

/**
 * Rows of a statement about many ids, a hundred of them at a time.
 *
 * @param statement receives the placeholders of the ids
 * @param others values of its other placeholders, before and after those of the ids
 */
export async function rowsOfIds<Row extends SqlRow>(
  sql: Statements,
  ids: readonly string[],
  statement: (marks: string) => string,
  { before = [], after = [] }: { readonly before?: readonly SqlValue[]; readonly after?: readonly SqlValue[] } = {},
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const some of partsOf(ids, IDS_AT_A_TIME))
    rows.push(...(await sql.all<Row>(statement(rowsOf(some.length, '?')), ...before, ...some, ...after)));
  return rows;
}
