/** Result columns that are computed together. */
export interface ColumnRange {
  readonly first: number;
  readonly count: number;
}

/** Columns that ONNX Runtime multiplies together. */
const STEP = 32;
const FEWEST = 64;

const COPIED = 4;

/** @returns at most `most` ranges of similar length that cover `width` columns */
export function columnRanges(width: number, most: number): ColumnRange[] {
  const shared = Math.max(FEWEST, STEP * Math.ceil(width / most / STEP));
  const count = width % COPIED === 0 ? shared : width;
  return Array.from({ length: Math.ceil(width / count) }, (_, i) => ({
    first: i * count,
    count: Math.min(count, width - i * count),
  }));
}
