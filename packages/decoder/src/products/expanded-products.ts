import assert from 'node:assert';
import { type FileMatrix, independentRanges } from '@trainyard/transformer';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import { type CopyStrided, expandedModule, GROUP_X_ROWS, INPUT_STEP } from './expanded-code.ts';
import {
  EXPANDED_CELL,
  ExpandedProductWork,
  type ExpandedProductWorkData,
  paddedGroupRows,
} from './expanded-product-work.ts';
import { startSum, type SumOfProducts } from './sum-of-products.ts';

/** Weights of a unit, unless a head has more: small enough for the processor's cache, and for threads to end together. */
const UNIT_VALUES = 1 << 16;

/** Products by matrices that stay in their file: a thread expands some rows and uses them for all rows of x. */
export class ExpandedProducts {
  readonly writesAnywhere = false;
  readonly #cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(EXPANDED_CELL).length));
  readonly #indices: ReadonlyMap<FileMatrix, number>;
  readonly #data: ExpandedProductWorkData;
  readonly #compute: (unit: number) => void;
  readonly #copyStrided: CopyStrided;
  readonly #x: Float32Array;
  readonly #team: ThreadTeam;
  readonly #work: number;

  /** @param matrices whose file is open as long as this object @param memory with room for {@link bytesFor} */
  constructor(matrices: readonly FileMatrix[], maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    const { weights, sums, x } = sizesOf(matrices, maxRows);
    const buffers = Array.from({ length: team.numThreads }, () => ({
      weights: memory.take(weights).byteOffset,
      sums: memory.take(sums).byteOffset,
    }));
    this.#data = {
      matrices: matrices.map((matrix) => ({ matrix, ranges: rangesOf(matrix), unitRows: unitRowsOf(matrix) })),
      memory: memory.shared,
      buffers,
      cells: this.#cells,
    };
    this.#indices = new Map(matrices.map((matrix, index) => [matrix, index]));
    this.#x = memory.take(x);
    const { copyStrided } = instantiate<{ copyStrided: CopyStrided }>(compileModule(expandedModule()), memory.shared);
    this.#copyStrided = copyStrided;
    const own = new ExpandedProductWork(this.#data, 0);
    this.#compute = (unit) => own.compute(unit);
    this.#team = team;
    this.#work = team.add({ kind: 'expanded-product', data: this.#data });
  }

  static bytesFor(matrices: readonly FileMatrix[], maxRows: number, numThreads: number): number {
    const { weights, sums, x } = sizesOf(matrices, maxRows);
    return numThreads * (4 * (weights + sums) + 128) + 4 * x + 64;
  }

  /**
   * Computes y += x · Wᵀ. Blocks until done.
   *
   * @param x [rows, in] @param y [rows, out], both in the memory
   * @param of rows of a matrix that has those of one tensor, which then are the columns of y. Default: all
   */
  addProduct(x: Float32Array, matrix: FileMatrix, y: Float32Array, of = { start: 0, end: matrix.rows }): void {
    for (const { buffer } of [x, y]) assert(buffer === this.#data.memory.buffer, 'rows of another memory');
    const index = this.#indices.get(matrix)!;
    const numRows = x.length / matrix.columns;
    this.#groupRows(x, matrix.columns, numRows);
    const cells = this.#cells;
    cells[EXPANDED_CELL.matrix] = index;
    cells[EXPANDED_CELL.numRows] = numRows;
    cells[EXPANDED_CELL.x] = this.#x.byteOffset;
    cells[EXPANDED_CELL.y] = y.byteOffset;
    cells[EXPANDED_CELL.firstRow] = of.start;
    cells[EXPANDED_CELL.endRow] = of.end;
    const { ranges, unitRows } = this.#data.matrices[index]!;
    const numUnits = ranges?.length ?? Math.ceil((of.end - of.start) / unitRows);
    this.#team.run(this.#work, numUnits, true, this.#compute);
  }

  /** Computes y = sum + x · Wᵀ. Blocks until done. @param x [rows, in], like sums and results in the memory */
  multiply(x: Float32Array, matrix: FileMatrix, rows: SumOfProducts): void {
    startSum(rows);
    this.addProduct(x, matrix, rows.y);
  }

  /** True if the kernels compute a matrix. */
  static fits({ columns }: FileMatrix): boolean {
    return columns % INPUT_STEP === 0;
  }

  /** [rows, in] → groups of [in, rows]; padding rows keep older values, whose results are not used. */
  #groupRows(x: Float32Array, columns: number, numRows: number): void {
    let to = this.#x.byteOffset;
    for (let first = 0; first < numRows; first += GROUP_X_ROWS) {
      const group = paddedGroupRows(first, numRows);
      for (let row = 0; row < Math.min(group, numRows - first); row++) {
        const from = x.byteOffset + 4 * (first + row) * columns;
        const start = to + 4 * row;
        this.#copyStrided(from, 4, start, 4 * group, start + 4 * group * columns);
      }
      to += 4 * group * columns;
    }
  }
}

const unitRowsOf = ({ columns }: FileMatrix): number => Math.max(1, Math.floor(UNIT_VALUES / columns));

/** Null: units are consecutive rows. */
const rangesOf = (matrix: FileMatrix) =>
  matrix.parts.length === 1 && matrix.parts[0]!.targets === null ? null : independentRanges(matrix, unitRowsOf(matrix));

/** Numbers of float32. */
function sizesOf(matrices: readonly FileMatrix[], maxRows: number): Record<'weights' | 'sums' | 'x', number> {
  const counts = matrices.map((matrix) =>
    Math.max(
      ...(rangesOf(matrix)?.map(({ start, end }) => end - start) ?? [Math.min(matrix.rows, unitRowsOf(matrix))]),
    ),
  );
  return {
    weights: Math.max(...matrices.map(({ columns }, i) => columns * counts[i]!)),
    sums: GROUP_X_ROWS * Math.max(...counts),
    x: GROUP_X_ROWS * Math.ceil(maxRows / GROUP_X_ROWS) * Math.max(...matrices.map(({ columns }) => columns)),
  };
}
