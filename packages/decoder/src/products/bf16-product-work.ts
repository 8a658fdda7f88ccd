import {
  BF16_ENDINGS,
  Bf16Product,
  BorrowedBf16Weights,
  computedRows,
  endingTakesOther,
  openBf16Library,
} from '@trainyard/native';
import type { Bf16Ending, Bf16Library, Bf16Place, ColumnPlace } from '@trainyard/native';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';

export interface Bf16MatrixData {
  readonly place: Bf16Place;
  /** Column ranges that threads may share; if empty they share only rows. */
  readonly columns: readonly ColumnPlace[];
}

/** Valid while the weights are open. */
export interface Bf16ProductWorkData {
  readonly libraryPath: string;
  readonly matrices: readonly Bf16MatrixData[];
  readonly memory: SharedWasmMemory;
  readonly cells: BigUint64Array;
}

/** Few rows wait for the weights. At 16 the library's threads are as fast, for two thirds of the processor time. */
export const MAX_COLUMN_ROWS = 8;

/** Addresses are those of the process for shared rows, and of the memory for shared columns. */
export const BF16_CELL = {
  matrix: 0,
  numRows: 1,
  /** 0: units are column ranges. */
  rowsPerUnit: 2,
  x: 3,
  y: 4,
  /** 0: none. */
  other: 5,
  /** Index in {@link ENDING_NAMES}. */
  ending: 6,
} as const;

export const ENDING_NAMES = Object.keys(BF16_ENDINGS) as Bf16Ending[];

/** Product work of one thread: a unit is some rows or some columns. */
export class Bf16ProductWork {
  readonly #library: Bf16Library;
  readonly #matrices: readonly Bf16MatrixData[];
  readonly #cells: BigUint64Array;
  readonly #memory: SharedArrayBuffer;
  /** Opened at first use: by matrix, and by matrix and column range. */
  readonly #weights: (BorrowedBf16Weights | undefined)[];
  readonly #columns: (BorrowedBf16Weights | undefined)[][];
  /** Contiguous columns of y and the other matrix, because the library writes no rows with gaps. */
  readonly #y: Float32Array;
  readonly #other: Float32Array;
  readonly #products = new Map<string, Bf16Product>();

  constructor({ libraryPath, matrices, memory, cells }: Bf16ProductWorkData) {
    this.#library = openBf16Library(libraryPath, 1);
    this.#matrices = matrices;
    this.#cells = cells;
    this.#memory = memory.buffer;
    this.#weights = matrices.map(() => undefined);
    this.#columns = matrices.map(() => []);
    const widest = Math.max(0, ...matrices.flatMap(({ columns }) => columns.map(({ place }) => place.dims.out)));
    // Native code writes into them, so the memory must not move.
    this.#y = new Float32Array(new ArrayBuffer(4 * MAX_COLUMN_ROWS * widest));
    this.#other = new Float32Array(new ArrayBuffer(4 * MAX_COLUMN_ROWS * widest));
  }

  compute(unit: number): void {
    if (this.#cells[BF16_CELL.rowsPerUnit] === 0n) this.#computeColumns(unit);
    else this.#computeRows(unit);
  }

  close(): void {
    for (const product of this.#products.values()) product.close();
    this.#products.clear();
    for (const weights of [...this.#weights.splice(0), ...this.#columns.splice(0).flat()]) weights?.close();
  }

  #computeColumns(unit: number): void {
    const index = this.#value('matrix');
    const ending = this.#ending;
    const { place: whole, columns } = this.#matrices[index]!;
    const { firstColumn, place } = columns[unit]!;
    const weights = (this.#columns[index]![unit] ??= new BorrowedBf16Weights(this.#library, place));
    const [numRows, { out, in: inner }] = [this.#value('numRows'), place.dims];
    const rowsAt = (start: number) => new Float32Array(this.#memory, start, numRows * whole.dims.out);
    const y = rowsAt(this.#value('y'));
    const columnsOfPart = { firstColumn, numColumns: out, numRows };
    if (BF16_ENDINGS[ending].adds) gather({ data: y, width: whole.dims.out }, columnsOfPart, this.#y);
    const other = endingTakesOther(ending) ? this.#other : null;
    if (other !== null) gather({ data: rowsAt(this.#value('other')), width: whole.dims.out }, columnsOfPart, other);
    const x = new Uint16Array(this.#memory, this.#value('x'), computedRows(numRows) * inner);
    this.#productOf(weights, ending).run(weights, { x, y: this.#y, other }, numRows);
    for (let row = 0; row < numRows; row++)
      y.set(this.#y.subarray(row * out, (row + 1) * out), row * whole.dims.out + firstColumn);
  }

  #value(name: keyof typeof BF16_CELL): number {
    return Number(this.#cells[BF16_CELL[name]]!);
  }

  get #ending(): Bf16Ending {
    return ENDING_NAMES[this.#value('ending')]!;
  }

  #computeRows(unit: number): void {
    const cells = this.#cells;
    const index = this.#value('matrix');
    const { place } = this.#matrices[index]!;
    const weights = (this.#weights[index] ??= new BorrowedBf16Weights(this.#library, place));
    const { out, in: inner } = place.dims;
    const rowsPerUnit = this.#value('rowsPerUnit');
    const first = unit * rowsPerUnit;
    const numRows = Math.min(this.#value('numRows') - first, rowsPerUnit);
    const ofResult = BigInt(4 * first * out);
    const other = cells[BF16_CELL.other]!;
    const places = {
      x: cells[BF16_CELL.x]! + BigInt(2 * first * inner),
      y: cells[BF16_CELL.y]! + ofResult,
      other: other === 0n ? null : other + ofResult,
    };
    this.#productOf(weights, this.#ending).runAt(weights, places, numRows);
  }

  #productOf(weights: BorrowedBf16Weights, ending: Bf16Ending): Bf16Product {
    const shape = `${weights.dims.out} ${weights.dims.in} ${ending}`;
    let product = this.#products.get(shape);
    if (product === undefined) {
      product = new Bf16Product(this.#library, weights, ending);
      this.#products.set(shape, product);
    }
    return product;
  }
}

function gather(
  from: { readonly data: Float32Array; readonly width: number },
  { firstColumn, numColumns, numRows }: { firstColumn: number; numColumns: number; numRows: number },
  into: Float32Array,
): void {
  for (let row = 0; row < numRows; row++) {
    const start = row * from.width + firstColumn;
    into.set(from.data.subarray(start, start + numColumns), row * numColumns);
  }
}
