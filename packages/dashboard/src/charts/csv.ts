import type { ChartLine } from './chart-line.ts';

/** The lines as CSV: a row for each place of any line, a column for each line. */
export function toCsv(xName: string, lines: readonly ChartLine[]): string {
  const columns = lines.flatMap(({ name, x, y, band }) => [
    { name, values: new Map(x.map((place, index) => [place, y[index]])) },
    ...(band === undefined
      ? []
      : [
          { name: `${name} low`, values: new Map(x.map((place, index) => [place, band.low[index]])) },
          { name: `${name} high`, values: new Map(x.map((place, index) => [place, band.high[index]])) },
        ]),
  ]);
  const places = placesOf(lines);
  const rows = places.map((place) => [place, ...columns.map(({ values }) => values.get(place) ?? '')].join(','));
  return `${[xName, ...columns.map(({ name }) => quoted(name))].join(',')}\n${rows.map((row) => `${row}\n`).join('')}`;
}

/** All places of all lines, in order. */
export function placesOf(lines: readonly ChartLine[]): number[] {
  return [...new Set(lines.flatMap(({ x }) => x))].toSorted((first, second) => first - second);
}

/** Quotes a text of a user: doubles quotes, and escapes formulas that spreadsheets would run. */
export function quoted(text: string): string {
  const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Makes the browser download a file. */
export function download(name: string, content: string | Blob, type = 'text/csv'): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
