import { styleText } from 'node:util';

import { columnsOf, cutInMiddle, cutTo, oneLine } from './printable.ts';

const GAP = '  ';
const LEAST_WIDTH = 6;

export interface Column {
  readonly title: string;
  /** right-aligned */
  readonly isNumber?: boolean;
  /** Says nothing if all rows have the same value: left out if the table is too wide. */
  readonly isOptional?: boolean;
  /** Keeps its width, since a cut would hide its point. */
  readonly isWhole?: boolean;
  /** Colour of a cell on a terminal with colours. */
  readonly colour?: (cell: string) => CellColour | null;
}

export type CellColour = 'green' | 'yellow' | 'red' | 'cyan' | 'dim';

/**
 * Formats rows with aligned columns. If they do not fit the width, optional columns with one value for all rows
 * are left out, then the widest columns are cut in their middle, with `…`: names of a series differ at both ends.
 *
 * @param width in characters; `Infinity` cuts nothing
 * @param isColoured bold titles, and the colours of the columns
 * @returns lines, the titles first, each with its line end
 */
export function tableOf(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
  isColoured: boolean = false,
): string {
  const shown = fitting(columns, rows, width);
  const ofShown = columns.filter((_, index) => shown.includes(index));
  const cells = [
    ofShown.map(({ title }) => title),
    ...rows.map((row) => shown.map((index) => oneLine(row[index] ?? ''))),
  ];
  const widths = fitted(
    ofShown.map(({ isWhole = false }, index) => ({ width: widthOfColumn(cells, index), isWhole })),
    width - GAP.length * (ofShown.length - 1),
  );
  const line = (row: readonly string[], rowIndex: number) =>
    row
      .map((cell, index) => {
        const column = ofShown[index]!;
        const text = cutInMiddle(cell, widths[index]!);
        const rest = ' '.repeat(Math.max(0, widths[index]! - columnsOf(text)));
        const colour = !isColoured ? null : rowIndex === 0 ? 'bold' : (column.colour?.(cell) ?? null);
        const styled = colour === null || text === '' ? text : styleText(colour, text, { validateStream: false });
        if (column.isNumber === true) return rest + styled;
        // Nothing trails at the end of a line.
        return index === row.length - 1 ? styled : styled + rest;
      })
      .join(GAP)
      .trimEnd();
  return cells.map((row, index) => `${line(row, index)}\n`).join('');
}

/** A table for a stream: as wide as its terminal, with its colours. */
export function tableFor(
  stream: NodeJS.WriteStream,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string {
  return tableOf(columns, rows, widthOf(stream), hasColours(stream));
}

/** True for a terminal with colours, unless `NO_COLOR` is set (no-color.org). */
export function hasColours(stream: NodeJS.WriteStream, environment: NodeJS.ProcessEnv = process.env): boolean {
  return stream.isTTY === true && !environment['NO_COLOR'] && stream.hasColors(environment);
}

/** Indices of the columns to show. */
function fitting(columns: readonly Column[], rows: readonly (readonly string[])[], width: number): number[] {
  const all = columns.map((_, index) => index);
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map(oneLine))];
  const sum = all.reduce((total, index) => total + widthOfColumn(cells, index) + GAP.length, -GAP.length);
  if (sum <= width || rows.length < 2) return all;
  return all.filter((index) => columns[index]!.isOptional !== true || new Set(rows.map((row) => row[index])).size > 1);
}

function widthOfColumn(cells: readonly (readonly string[])[], index: number): number {
  return Math.max(...cells.map((row) => columnsOf(row[index] ?? '')));
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

/** Shrinks the widest columns until all fit; those to keep whole only if the others are as narrow as possible. */
function fitted(columns: readonly { readonly width: number; readonly isWhole: boolean }[], width: number): number[] {
  const fit = columns.map((column) => column.width);
  for (const alsoWhole of [false, true]) {
    for (let excess = fit.reduce((sum, one) => sum + one, 0) - width; excess > 0; excess--) {
      const widest = fit.reduce(
        (best, one, index) =>
          (alsoWhole || !columns[index]!.isWhole) && one > LEAST_WIDTH && (best < 0 || one > fit[best]!) ? index : best,
        -1,
      );
      if (widest < 0) break;
      fit[widest]!--;
    }
  }
  return fit;
}
