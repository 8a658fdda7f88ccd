import { readValues, type GgufFile, type TensorPlace } from '@trainyard/native';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import { GGUF_LINEARS } from './gguf-linears.ts';
import { toInterleaved } from './head-permutation.ts';
import type { LinearName } from './lora-config.ts';
import { PROJECTIONS, type ProjectionName } from './projections.ts';

/** Rows of one tensor of a file. */
interface FileRows {
  readonly place: TensorPlace;
  readonly numRows: number;
  /** Row of the matrix, within these rows, for a row of the tensor; null: the same. */
  readonly targets: Int32Array | null;
}

/** A frozen matrix that stays in its file, for any thread. Rows are expanded when a layer is computed. */
export interface FileMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly parts: readonly FileRows[];
}

/** Rows that are read and copied together, in values: they stay in the processor's cache. */
const PIECE_VALUES = 1 << 16;

let piece = new Float32Array(0);

/** A projection's linear layers, stacked; q and k in half-rotation order. */
export function fileMatrix(
  file: Pick<GgufFile, 'place'>,
  architecture: Architecture,
  { layer, projection }: { readonly layer: number; readonly projection: ProjectionName },
): FileMatrix {
  const parts = PROJECTIONS[projection].map((linear): FileRows => ({
    place: file.place(`blk.${layer}.${GGUF_LINEARS[linear]}.weight`),
    numRows: linearDims(architecture, linear).out,
    targets: halfRotationRows(architecture, linear),
  }));
  const columns = linearDims(architecture, PROJECTIONS[projection][0]!).in;
  return { rows: parts.reduce((sum, { numRows }) => sum + numRows, 0), columns, parts };
}

/**
 * Writes some rows of a matrix and of the adapter's columns after them: `[W | b]`.
 *
 * @param rows in the order of the file @param b [rows, extra] or empty @param into [rows, columns + extra]
 * @throws {NativeError} `native.gguf_malformed` if the file has become shorter
 */
export function expandRows(
  { columns, rows, parts }: FileMatrix,
  { start, end }: { readonly start: number; readonly end: number },
  b: Float32Array,
  into: Float32Array,
): void {
  const extra = b.length / rows;
  const width = columns + extra;
  const most = Math.max(1, Math.floor(PIECE_VALUES / columns));
  if (piece.length < most * columns) piece = new Float32Array(new ArrayBuffer(4 * most * columns));
  let first = 0;
  for (const { place, numRows, targets } of parts) {
    const last = Math.min(numRows, end - first);
    for (let row = Math.max(0, start - first); row < last; row += most) {
      const values = piece.subarray(0, Math.min(most, last - row) * columns);
      readValues(place, row * columns, values);
      for (let i = 0; i * columns < values.length; i++) {
        const target = first + (targets === null ? row + i : targets[row + i]!);
        into.set(values.subarray(i * columns, (i + 1) * columns), target * width);
        if (extra > 0) into.set(b.subarray(target * extra, (target + 1) * extra), target * width + columns);
      }
    }
    first += numRows;
  }
}

function halfRotationRows(architecture: Architecture, linear: LinearName): Int32Array | null {
  const { hasInterleavedHeads, numHeads, numKvHeads } = architecture;
  if (!hasInterleavedHeads || (linear !== 'q' && linear !== 'k')) return null;
  const rows = Float32Array.from({ length: linearDims(architecture, linear).out }, (_, row) => row);
  return Int32Array.from(toInterleaved(rows, linear === 'q' ? numHeads : numKvHeads, 1));
}
