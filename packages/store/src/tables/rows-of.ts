/** The values of so many rows, for one statement: `row` is those of one, such as `(?, ?)`. A statement is kept prepared for each number of them. */
export function rowsOf(number: number, row: string): string {
  return Array.from({ length: number }, () => row).join(', ');
}
