import type { Tensor } from 'onnxruntime-common';
import { float32, int64 } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import type { PackedRow } from './policy-model.ts';
import { queryBlocks } from './query-blocks.ts';
import { ropeTables } from './rope.ts';

/** A half-open range of row indices. */
export interface TokenRange {
  readonly start: number;
  readonly end: number;
}

export interface AttentionBlock extends TokenRange {
  readonly keys: Int32Array;
  /** The index inputs of the attention graph. */
  readonly feeds: Readonly<Record<'queries' | 'keys' | 'ends', Tensor>>;
}

/** What every layer needs to know about a row, computed once. */
export interface RowPlan {
  readonly numTokens: number;
  /** Pieces in which token-wise graphs run. */
  readonly chunks: readonly TokenRange[];
  /** Pieces in which attention runs. */
  readonly attention: readonly AttentionBlock[];
  /** [T, D/2] each. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

export interface RowPlanOptions {
  /** Tokens a run of a token-wise graph takes: bounds temporaries and the time of one run. */
  readonly chunkTokens: number;
  /** Queries an attention run takes: more waste less on launches and more on masked scores. */
  readonly queryBlockTokens: number;
}

export function planRow(
  row: PackedRow,
  architecture: Architecture,
  ropeFactors: Float32Array | null,
  options: RowPlanOptions,
): RowPlan {
  const numTokens = row.tokenIds.length;
  return {
    numTokens,
    chunks: ranges(numTokens, options.chunkTokens),
    attention: queryBlocks(row, options.queryBlockTokens).map(({ start, end, keys, ends }) => ({
      start,
      end,
      keys,
      feeds: {
        queries: int64(
          Int32Array.from({ length: end - start }, (_, i) => start + i),
          [end - start, 1],
        ),
        keys: int64(keys, [keys.length]),
        ends: int64(ends, [1, ends.length]),
      },
    })),
    ...ropeTables(row.positions, architecture, ropeFactors),
  };
}

/** Equal pieces of at most `size`, so that the last one is not a sliver. */
export function ranges(length: number, size: number): TokenRange[] {
  const count = Math.ceil(length / size);
  return Array.from({ length: count }, (_, i) => ({
    start: Math.floor((i * length) / count),
    end: Math.floor(((i + 1) * length) / count),
  }));
}

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
