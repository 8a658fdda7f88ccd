import { expandRange, type FileMatrix } from '@trainyard/transformer';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import {
  type CopyStrided,
  expandedModule,
  type ExpandedKernel,
  expandedName,
  GROUP_X_ROWS,
  MAX_WEIGHT_ROWS,
} from './expanded-code.ts';

export interface ExpandedMatrixData {
  readonly matrix: FileMatrix;
  /** Rows of the matrix, which are columns of the result, by unit; null: `unitRows` each, in order. */
  readonly ranges: readonly { readonly start: number; readonly end: number }[] | null;
  readonly unitRows: number;
}

/** Valid while the file of the matrices is open. */
export interface ExpandedProductWorkData {
  readonly matrices: readonly ExpandedMatrixData[];
  readonly memory: SharedWasmMemory;
  /** Memory of each thread: expanded rows of a unit, then sums of a group of rows. */
  readonly buffers: readonly { readonly weights: number; readonly sums: number }[];
  /** Float64, because addresses may exceed 2 GiB. */
  readonly cells: Float64Array;
}

/** Addresses are bytes. */
export const EXPANDED_CELL = {
  matrix: 0,
  numRows: 1,
  /** Groups of rows: [in, 8] each, [in, 4] if the last has no more. */
  x: 2,
  y: 3,
  /** Rows of the matrix that are multiplied. */
  firstRow: 4,
  endRow: 5,
} as const;

/** Rows of the group that starts at `row`, padding included. */
export const paddedGroupRows = (row: number, numRows: number): number =>
  numRows - row <= GROUP_X_ROWS / 2 ? GROUP_X_ROWS / 2 : GROUP_X_ROWS;

/** Product work of one thread: expands some rows of a matrix and multiplies all rows of x by them. */
export class ExpandedProductWork {
  readonly #data: ExpandedProductWorkData;
  readonly #buffer: { readonly weights: number; readonly sums: number };
  readonly #kernels: ReadonlyMap<number, readonly ExpandedKernel[]>;
  readonly #copyStrided: CopyStrided;

  constructor(data: ExpandedProductWorkData, thread: number) {
    this.#data = data;
    this.#buffer = data.buffers[thread]!;
    const module = compileModule(expandedModule());
    const functions = instantiate<Readonly<Record<string, ExpandedKernel & CopyStrided>>>(module, data.memory);
    const counts = Array.from({ length: MAX_WEIGHT_ROWS }, (_, i) => i + 1);
    this.#kernels = new Map(
      [GROUP_X_ROWS / 2, GROUP_X_ROWS].map((rows) => [
        rows,
        counts.map((count) => functions[expandedName(rows, count)]!),
      ]),
    );
    this.#copyStrided = functions['copyStrided']!;
  }

  compute(unit: number): void {
    const { cells, matrices, memory } = this.#data;
    const { matrix, ranges, unitRows } = matrices[cells[EXPANDED_CELL.matrix]!]!;
    const [firstRow, endRow] = [cells[EXPANDED_CELL.firstRow]!, cells[EXPANDED_CELL.endRow]!];
    const from = firstRow + unit * unitRows;
    const { start, end } = ranges?.[unit] ?? { start: from, end: Math.min(endRow, from + unitRows) };
    const { columns } = matrix;
    const width = endRow - firstRow;
    const count = end - start;
    expandRange(matrix, { start, end }, new Float32Array(memory.buffer, this.#buffer.weights, count * columns));
    const numRows = cells[EXPANDED_CELL.numRows]!;
    let x = cells[EXPANDED_CELL.x]!;
    for (let row = 0; row < numRows; row += GROUP_X_ROWS) {
      const group = paddedGroupRows(row, numRows);
      const xEnd = x + 4 * columns * group;
      const y = cells[EXPANDED_CELL.y]! + 4 * (row * width + start - firstRow);
      this.#multiply({ x, xEnd, columns, group }, count, { y, width, numRows: Math.min(group, numRows - row) });
      x = xEnd;
    }
  }

  #multiply(
    { x, xEnd, columns, group }: { x: number; xEnd: number; columns: number; group: number },
    count: number,
    { y, width, numRows }: { y: number; width: number; numRows: number },
  ): void {
    const { sums, weights } = this.#buffer;
    const [groupBytes, sumBytes] = [4 * group, 4 * group * count];
    for (let row = 0; row < numRows; row++) {
      const to = sums + 4 * row;
      this.#copyStrided(y + 4 * row * width, 4, to, groupBytes, to + sumBytes);
    }
    const kernels = this.#kernels.get(group)!;
    for (let first = 0; first < count; first += MAX_WEIGHT_ROWS) {
      const kernel = kernels[Math.min(MAX_WEIGHT_ROWS, count - first) - 1]!;
      kernel(x, xEnd, weights + 4 * first * columns, 4 * columns, sums + first * groupBytes);
    }
    for (let row = 0; row < numRows; row++) {
      const to = y + 4 * row * width;
      this.#copyStrided(sums + 4 * row, groupBytes, to, 4, to + 4 * count);
    }
  }
}
