import type { Tensor } from 'onnxruntime-common';
import { float32 } from '../graph/session.ts';

/** A half-open range of row indices. */
export interface TokenRange {
  readonly start: number;
  readonly end: number;
}

/** Equal pieces of at most `size`, so that the last one is not a sliver. */
export const ranges = (length: number, size: number): TokenRange[] => equalPieces(length, Math.ceil(length / size));

export const equalPieces = (length: number, count: number): TokenRange[] =>
  Array.from({ length: count }, (_, i) => ({
    start: Math.floor((i * length) / count),
    end: Math.floor(((i + 1) * length) / count),
  }));

/**
 * Rows start ≤ i < end of a [T, columns] matrix, as a tensor over the same memory.
 *
 * @param shape Of the tensor: the same elements otherwise arranged. Default [rows, columns].
 */
export function rowsOf(
  matrix: Float32Array,
  columns: number,
  range: TokenRange,
  shape: (rows: number) => readonly number[] = (rows) => [rows, columns],
): Tensor {
  return float32(matrix.subarray(range.start * columns, range.end * columns), shape(range.end - range.start));
}
