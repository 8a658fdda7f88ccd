/** The values of so many rows, for one statement: `row` is those of one, such as `(?, ?)`. A statement is kept prepared for each number of them. */
export function rowsOf(number: number, row: string): string {
  return Array.from({ length: number }, () => row).join(', ');
}

/** All of them, in their order, so many at a time. All writers wait while a transaction lasts, and a statement is a message to another machine and back. */
export function* partsOf<Row>(rows: readonly Row[], size: number): Generator<Row[]> {
  for (let first = 0; first < rows.length; first += size) yield rows.slice(first, first + size);
}
