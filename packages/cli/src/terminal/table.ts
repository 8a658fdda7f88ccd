import { columnsOf, cutTo, oneLine } from './printable.ts';

const GAP = '  ';
const LEAST_WIDTH = 6;

export interface Column {
  readonly title: string;
  /** right-aligned */
  readonly isNumber?: boolean;
}

/**
 * Formats rows with aligned columns. If they do not fit the width, the widest columns are cut, with `…` at
 * the end.
 *
 * @param width in characters; `Infinity` cuts nothing
 * @returns lines, the titles first, each with its line end
 */
export function tableOf(columns: readonly Column[], rows: readonly (readonly string[])[], width: number): string {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map(oneLine))];
  const widths = fitted(
    columns.map((_column, index) => Math.max(...cells.map((row) => columnsOf(row[index] ?? '')))),
    width - GAP.length * (columns.length - 1),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, index) => {
        const text = cutTo(cell, widths[index]!);
        const rest = ' '.repeat(Math.max(0, widths[index]! - columnsOf(text)));
        return columns[index]?.isNumber === true ? rest + text : text + rest;
      })
      .join(GAP)
      .trimEnd();
  return cells.map((row) => `${line(row)}\n`).join('');
}

/** Formats entries as lines `name  value`. */
export function listingOf(entries: readonly (readonly [name: string, value: string])[], width: number): string {
  const nameWidth = Math.max(...entries.map(([name]) => name.length));
  const rest = Math.max(LEAST_WIDTH, width - nameWidth - GAP.length);
  return entries.map(([name, value]) => `${name.padEnd(nameWidth)}${GAP}${cutTo(oneLine(value), rest)}\n`).join('');
}

/** Characters per line of a terminal; unlimited for a file or a pipe. */
export function widthOf(stream: NodeJS.WriteStream): number {
  return stream.isTTY === true ? stream.columns || 80 : Infinity;
}

/** Shrinks the widest columns until all fit. */
function fitted(widths: readonly number[], width: number): number[] {
  const fit = [...widths];
  for (let excess = fit.reduce((sum, one) => sum + one, 0) - width; excess > 0; excess--) {
    const widest = fit.indexOf(Math.max(...fit));
    if (fit[widest]! <= LEAST_WIDTH) break;
    fit[widest]!--;
  }
  return fit;
}
