import { float32, type Tensor } from '@trainyard/transformer';

/** Half-open range of row indices. */
export interface TokenRange {
  readonly start: number;
  readonly end: number;
}

export const ranges = ({ start, end }: TokenRange, size: number): TokenRange[] =>
  equalPieces(end - start, Math.ceil((end - start) / size)).map((piece) => ({
    start: start + piece.start,
    end: start + piece.end,
  }));

export const equalPieces = (length: number, count: number): TokenRange[] =>
  Array.from({ length: count }, (_, i) => ({
    start: Math.floor((i * length) / count),
    end: Math.floor(((i + 1) * length) / count),
  }));

/** Shortest list of ranges with every index; gaps of at most `maxGap` are filled. */
export function spans(indices: Int32Array, maxGap: number): TokenRange[] {
  const all: { start: number; end: number }[] = [];
  for (const index of indices.toSorted()) {
    const last = all.at(-1);
    if (last !== undefined && index - last.end <= maxGap) last.end = Math.max(last.end, index + 1);
    else all.push({ start: index, end: index + 1 });
  }
  return all;
}

export const clipped = (all: readonly TokenRange[], within: TokenRange): TokenRange[] =>
  all
    .map(({ start, end }) => ({ start: Math.max(start, within.start), end: Math.min(end, within.end) }))
    .filter(({ start, end }) => end > start);

/**
 * Rows of a [T, columns] matrix, over the same memory.
 *
 * @param shape of the tensor with the same elements. Default [rows, columns]
 */
export function rowsOf(
  matrix: Float32Array,
  columns: number,
  range: TokenRange,
  shape: (rows: number) => readonly number[] = (rows) => [rows, columns],
): Tensor {
  return float32(matrix.subarray(range.start * columns, range.end * columns), shape(range.end - range.start));
}
