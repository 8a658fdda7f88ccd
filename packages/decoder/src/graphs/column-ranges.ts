/** Columns of a result that are computed together. */
export interface ColumnRange {
  readonly first: number;
  readonly count: number;
}

/** Columns that ONNX Runtime multiplies side by side: ranges but the last are multiples. */
const STEP = 32;
/** Fewer are not worth a thread's while. */
const FEWEST = 64;

/** Columns are copied four at a time. */
const COPIED = 4;

/** @returns ranges of about the same length that cover `width` columns, at most `most` */
export function columnRanges(width: number, most: number): ColumnRange[] {
  const shared = Math.max(FEWEST, STEP * Math.ceil(width / most / STEP));
  const count = width % COPIED === 0 ? shared : width;
  return Array.from({ length: Math.ceil(width / count) }, (_, i) => ({
    first: i * count,
    count: Math.min(count, width - i * count),
  }));
}
