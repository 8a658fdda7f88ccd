import type { InstructionSet } from '@trainyard/native';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import type { QuantisedMatrix } from './quantised-matrix.ts';
import { FORMATS, PRODUCT_CELL, ProductWork, type ProductWorkData } from './product-work.ts';
import { BLOCK_VALUES, GROUP_ROWS } from './quantised-code.ts';

/** About 15 µs: small enough that threads finish together, large enough that taking units costs nothing. */
const UNIT_VALUES = 64_000;

export class QuantisedProducts {
  readonly #cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(PRODUCT_CELL).length));
  readonly #compute: (unit: number) => void;
  readonly #team: ThreadTeam;
  readonly #work: number;
  readonly #buffer: SharedArrayBuffer;

  /**
   * @param memory of weights, inputs and results
   * @param instructions of native kernels, of `productInstructions`. Default null: WebAssembly computes
   */
  constructor(memory: SharedWasmMemory, team: ThreadTeam, instructions: InstructionSet | null = null) {
    const data: ProductWorkData = { memory, cells: this.#cells, instructions };
    const own = new ProductWork(data);
    this.#compute = (unit) => own.compute(unit);
    this.#team = team;
    this.#work = team.add({ kind: 'product', data });
    this.#buffer = memory.buffer;
  }

  /** Computes y += x · Wᵀ. Blocks until done. @param x [rows, in] @param y [rows, out], both in the memory */
  addProduct(x: Float32Array, matrix: QuantisedMatrix, y: Float32Array): void {
    if (x.buffer !== this.#buffer || y.buffer !== this.#buffer) throw new TypeError('x and y lie in another memory');
    const cells = this.#cells;
    // Native kernels multiply two groups together.
    const groupsPerUnit = 2 * Math.max(1, Math.round(UNIT_VALUES / (2 * GROUP_ROWS * matrix.in)));
    cells[PRODUCT_CELL.numRows] = x.length / matrix.in;
    cells[PRODUCT_CELL.x] = x.byteOffset;
    cells[PRODUCT_CELL.xRowBytes] = 4 * matrix.in;
    cells[PRODUCT_CELL.yRowBytes] = 4 * matrix.out;
    cells[PRODUCT_CELL.groupsPerUnit] = groupsPerUnit;
    for (const { format, address, firstRow, numRows } of matrix.parts) {
      const numGroups = numRows / GROUP_ROWS;
      cells[PRODUCT_CELL.format] = FORMATS.indexOf(format);
      cells[PRODUCT_CELL.y] = y.byteOffset + 4 * firstRow;
      cells[PRODUCT_CELL.weights] = address;
      cells[PRODUCT_CELL.numGroups] = numGroups;
      this.#team.run(this.#work, Math.ceil(numGroups / groupsPerUnit), true, this.#compute);
    }
  }

  /** True if the kernels compute a matrix of these sizes. */
  static fits({ out, in: columns }: { readonly out: number; readonly in: number }): boolean {
    return out % GROUP_ROWS === 0 && columns % BLOCK_VALUES === 0;
  }
}
