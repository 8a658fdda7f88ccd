import { addressOf } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { PackedProductWork, type PackedProductWorkData, PRODUCT_CELL } from './packed-product-work.ts';
import type { PackedMatrix } from './packed-matrix.ts';
import { startSum, type SumOfProducts } from '../products/sum-of-products.ts';
import { FORMATS } from './weight-formats.ts';

/** About 15 µs for one row: small enough that threads finish together, large enough that taking units costs nothing. */
const UNIT_VALUES = 64_000;
/** Native kernels multiply up to 64 columns together, or twice as many. */
const COLUMN_STEP = 64;

export class PackedProducts {
  readonly #cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(PRODUCT_CELL).length));
  readonly #compute: (unit: number) => void;
  readonly #team: ThreadTeam;
  readonly #work: number;
  readonly #memory: Uint8Array<SharedArrayBuffer>;
  readonly writesAnywhere: boolean;
  /** Places of other memories. */
  readonly #starts = new WeakMap<ArrayBufferLike, number>();

  /**
   * @param memory of inputs and results, and of weights if WebAssembly computes
   * @param instructions of native kernels, of `productInstructions`. Default null: WebAssembly computes
   */
  constructor(memory: SharedWasmMemory, team: ThreadTeam, instructions: InstructionSet | null = null) {
    const data: PackedProductWorkData = { memory, cells: this.#cells, instructions };
    const own = new PackedProductWork(data);
    this.#compute = (unit) => own.compute(unit);
    this.#team = team;
    this.#work = team.add({ kind: 'packed-product', data });
    this.#memory = new Uint8Array(memory.buffer);
    this.writesAnywhere = instructions !== null;
  }

  /**
   * Computes y = sum + x · Wᵀ. Blocks until done.
   *
   * @param x [rows, in] in the memory
   * @param sum [rows, out], which may be y; null: 0
   * @param y [rows, out]. Both in the memory if WebAssembly computes, else in any shared memory
   */
  multiply(x: Float32Array, matrix: PackedMatrix, { sum, y }: SumOfProducts): void {
    const cells = this.#cells;
    const columnsPerUnit = COLUMN_STEP * Math.max(1, Math.round(UNIT_VALUES / (COLUMN_STEP * matrix.in)));
    if (!this.writesAnywhere) startSum({ sum, y });
    const yPlace = this.#placeOf(y);
    const sumPlace = sum === null ? NaN : this.#placeOf(sum);
    cells[PRODUCT_CELL.numRows] = x.length / matrix.in;
    cells[PRODUCT_CELL.x] = this.#placeOf(x);
    cells[PRODUCT_CELL.xRowBytes] = 4 * matrix.in;
    cells[PRODUCT_CELL.yRowBytes] = 4 * matrix.out;
    cells[PRODUCT_CELL.columnsPerUnit] = columnsPerUnit;
    for (const { format, bytes, firstRow, numRows } of matrix.parts) {
      cells[PRODUCT_CELL.format] = FORMATS.indexOf(format);
      cells[PRODUCT_CELL.sum] = sumPlace + 4 * firstRow;
      cells[PRODUCT_CELL.y] = yPlace + 4 * firstRow;
      cells[PRODUCT_CELL.weights] = this.#placeOf(bytes);
      cells[PRODUCT_CELL.numColumns] = numRows;
      this.#team.run(this.#work, Math.ceil(numRows / columnsPerUnit), true, this.#compute);
    }
  }

  /** Bytes from the memory's start. */
  #placeOf({ buffer, byteOffset }: Float32Array | Uint8Array): number {
    if (buffer === this.#memory.buffer) return byteOffset;
    if (!this.writesAnywhere) throw new TypeError('rows and weights are in another memory');
    let start = this.#starts.get(buffer);
    if (start === undefined) {
      if (!(buffer instanceof SharedArrayBuffer)) throw new TypeError('rows and weights are in memory that may move');
      // Differences of addresses of one process have fewer than 48 bits.
      start = Number(addressOf(new Uint8Array(buffer)) - addressOf(this.#memory));
      this.#starts.set(buffer, start);
    }
    return start + byteOffset;
  }
}
