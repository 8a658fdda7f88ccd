import { partOfTensor, readValues, type GgufFile, type TensorPlace } from '@trainyard/native';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import { ggufLinear } from './gguf-linears.ts';
import { toInterleaved } from './head-permutation.ts';
import { ALL_LINEAR_NAMES, type LinearName } from './lora-config.ts';
import {
  type ByProjection,
  byProjection,
  projectionDims,
  projectionParts,
  projectionsIn,
  type ProjectionName,
} from './projections.ts';

/** Rows of one tensor, in its file or in shared memory. */
interface FileRows {
  readonly place: TensorPlace | Float32Array;
  readonly numRows: number;
  /** Row of the matrix, within these rows, for a row of the tensor; null: the same. */
  readonly targets: Int32Array | null;
  /** Consecutive rows that change places only among themselves. */
  readonly numTogether: number;
}

/**
 * A frozen matrix outside the graphs, for any thread. It stays in its file, and rows are expanded when a layer is
 * computed; or it is in shared memory.
 */
export interface FileMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly parts: readonly FileRows[];
}

/** Rows that are read and copied together, in values: they stay in the processor's cache. */
const PIECE_VALUES = 1 << 16;

let piece = new Float32Array(0);

/** Matrices of all blocks: linear layers of a projection, stacked; q and k in half-rotation order. */
export function fileMatrices(file: Pick<GgufFile, 'place'>, architecture: Architecture): ByProjection<FileMatrix>[] {
  const orders = new Map(ALL_LINEAR_NAMES.map((linear) => [linear, halfRotationRows(architecture, linear)]));
  const matrix = (layer: number, projection: ProjectionName): FileMatrix => {
    const { in: columns, out: rows } = projectionDims(architecture, projection);
    const parts = projectionParts(architecture, projection).map(({ linear, firstRow, numRows }): FileRows => {
      const targets = orders.get(linear)!;
      const place = file.place(`blk.${layer}.${ggufLinear(architecture, layer, linear)}.weight`);
      return {
        place: partOfTensor(place, firstRow * columns, numRows * columns),
        numRows,
        targets,
        numTogether: targets === null ? 1 : architecture.headSize,
      };
    });
    return { rows, columns, parts };
  };
  return Array.from({ length: architecture.numLayers }, (_, layer) =>
    byProjection(projectionsIn(architecture, layer), (projection) => matrix(layer, projection)),
  );
}

/** A matrix with the rows of a tensor. @param place in a file, or in shared memory */
export function plainFileMatrix(place: TensorPlace | Float32Array, columns: number): FileMatrix {
  const rows = (place instanceof Float32Array ? place.length : place.numValues) / columns;
  return { rows, columns, parts: [{ place, numRows: rows, targets: null, numTogether: 1 }] };
}

/** Ranges of at most `maxRows` rows, if possible, that can be expanded by themselves. */
export function independentRanges({ parts }: FileMatrix, maxRows: number): { start: number; end: number }[] {
  let first = 0;
  return parts.flatMap(({ numRows, numTogether }) => {
    const start = first;
    first += numRows;
    const size = numTogether * Math.max(1, Math.floor(maxRows / numTogether));
    return Array.from({ length: Math.ceil(numRows / size) }, (_, i) => ({
      start: start + i * size,
      end: start + Math.min(numRows, (i + 1) * size),
    }));
  });
}

/**
 * Writes some rows of a matrix and of the adapter's columns after them: `[W | b]`.
 *
 * @param range rows in the order of the file @param b [rows, extra] or empty @param into [rows, columns + extra]
 * @throws {NativeError} `native.gguf_malformed` if the file has become shorter
 */
export function expandRows(matrix: FileMatrix, range: RowRange, b: Float32Array, into: Float32Array): void {
  const { columns, rows } = matrix;
  const extra = b.length / rows;
  const width = columns + extra;
  eachRow(matrix, range, (row, values) => {
    into.set(values, row * width);
    if (extra > 0) into.set(b.subarray(row * extra, (row + 1) * extra), row * width + columns);
  });
}

/** Writes one of {@link independentRanges}. @param into [end - start, columns] */
export function expandRange(matrix: FileMatrix, range: RowRange, into: Float32Array): void {
  const { columns } = matrix;
  const part = partAt(matrix, range.start);
  if (part.targets !== null)
    return eachRow(matrix, range, (row, values) => into.set(values, (row - range.start) * columns));
  readRows(part, range.start - part.first, columns, into);
}

/** @param row first one, of these rows */
function readRows({ place }: FileRows, row: number, columns: number, into: Float32Array): void {
  const first = row * columns;
  if (place instanceof Float32Array) into.set(place.subarray(first, first + into.length));
  else readValues(place, first, into);
}

interface RowRange {
  readonly start: number;
  readonly end: number;
}

/** Reads rows in file order. @param visit with the row's place in the matrix; the values are valid until it returns */
function eachRow(
  { columns, parts }: FileMatrix,
  { start, end }: RowRange,
  visit: (row: number, values: Float32Array) => void,
): void {
  const most = Math.max(1, Math.floor(PIECE_VALUES / columns));
  if (piece.length < most * columns) piece = new Float32Array(new ArrayBuffer(4 * most * columns));
  let first = 0;
  for (const part of parts) {
    const { numRows, targets } = part;
    const last = Math.min(numRows, end - first);
    for (let row = Math.max(0, start - first); row < last; row += most) {
      const values = piece.subarray(0, Math.min(most, last - row) * columns);
      readRows(part, row, columns, values);
      for (let i = 0; i * columns < values.length; i++)
        visit(first + (targets?.[row + i] ?? row + i), values.subarray(i * columns, (i + 1) * columns));
    }
    first += numRows;
  }
}

function partAt({ parts }: FileMatrix, row: number): FileRows & { readonly first: number } {
  let first = 0;
  for (const part of parts) {
    if (row < first + part.numRows) return { ...part, first };
    first += part.numRows;
  }
  throw new RangeError(`row ${row} of ${first}`);
}

function halfRotationRows(architecture: Architecture, linear: LinearName): Int32Array | null {
  const { hasInterleavedHeads, numHeads, numKvHeads } = architecture;
  if (!hasInterleavedHeads || (linear !== 'q' && linear !== 'k')) return null;
  const rows = Float32Array.from({ length: linearDims(architecture, linear).out }, (_, row) => row);
  return Int32Array.from(toInterleaved(rows, linear === 'q' ? numHeads : numKvHeads, 1));
}
