/** One line of a chart: columns of the same length, in ascending order of `x`. */
export interface ChartLine {
  readonly name: string;
  /** Which of the four colours of series it has, from 1. */
  readonly color: 1 | 2 | 3 | 4;
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** An area around the line: how far values spread. */
  readonly band?: { readonly low: readonly number[]; readonly high: readonly number[] } | undefined;
}
