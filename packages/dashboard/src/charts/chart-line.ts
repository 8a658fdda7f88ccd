/** One line of a chart: columns of the same length, in ascending order of `x`. */
export interface ChartLine {
  readonly name: string;
  /** Index of its colour and dash among the four of series, from 1; the first is solid. */
  readonly color: 1 | 2 | 3 | 4;
  /** Dash of another colour, for more than four lines. Default: of its own. */
  readonly dash?: 1 | 2 | 3 | 4;
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** Area around the line: the spread of the values. */
  readonly band?: { readonly low: readonly number[]; readonly high: readonly number[] } | undefined;
  /** Values of jobs that failed or were cancelled: hollow points that belong to no line. */
  readonly discarded?: Discarded | undefined;
}

export interface Discarded {
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** Job of each value. */
  readonly jobs: readonly string[];
}

/** Values that are good, inclusive. */
export interface GoodRange {
  readonly from: number;
  readonly to: number;
}
