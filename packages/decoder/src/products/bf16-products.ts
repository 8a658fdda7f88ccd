import assert from 'node:assert';
import { addressOf, Bf16Product, computedRows, endingTakesOther, openBf16Library } from '@trainyard/native';
import type { Bf16Ending, Bf16Library, Bf16Weights, ColumnPlace, ProductRows } from '@trainyard/native';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import {
  BF16_CELL,
  Bf16ProductWork,
  type Bf16ProductWorkData,
  ENDING_NAMES,
  MAX_COLUMN_ROWS,
} from './bf16-product-work.ts';

/** Fewer rows would wait for the weights, which each thread reads in full. */
const MIN_UNIT_ROWS = 16;
/** More gain nothing, and leave nothing to share if a thread is held up. */
const MAX_UNIT_ROWS = 128;
/** All units but the last are multiples: rows computed beyond them would belong to another unit. */
const ROW_STEP = 8;
/**
 * Above this many results the library shares the columns, because each thread of the team would read as many
 * weights.
 */
const MAX_SHARED_WIDTH = 16_384;

export interface Bf16Matrix {
  readonly weights: Bf16Weights;
  readonly columns: readonly ColumnPlace[];
}

/**
 * Products by bf16 matrices. The team's threads share the columns of few rows, which wait for the weights, and
 * the rows of many. The library's own threads, which sleep between products, compute the cases in between, the
 * vocabulary, and matrices that cannot be cut: at 64 rows two of them were as fast as one.
 */
export class Bf16Products {
  readonly #library: Bf16Library;
  readonly #matrices: readonly Bf16Matrix[];
  readonly #cells = new BigUint64Array(new SharedArrayBuffer(8 * Object.keys(BF16_CELL).length));
  readonly #own: Bf16ProductWork;
  readonly #compute: (unit: number) => void;
  readonly #memory: DecoderMemory;
  readonly #team: ThreadTeam;
  readonly #work: number;
  readonly #whole = new Map<string, Bf16Product>();
  readonly #addresses = new WeakMap<ArrayBufferLike, bigint>();

  /** @param matrices open as long as this object @param memory of inputs and products, for shared columns */
  constructor(library: Bf16Library, matrices: readonly Bf16Matrix[], memory: DecoderMemory, team: ThreadTeam) {
    this.#library = library;
    this.#matrices = matrices;
    this.#memory = memory;
    const data: Bf16ProductWorkData = {
      libraryPath: library.path,
      matrices: matrices.map(({ weights, columns }) => ({ place: weights.place, columns })),
      memory: memory.shared,
      cells: this.#cells,
    };
    this.#own = new Bf16ProductWork(data);
    this.#compute = (unit) => this.#own.compute(unit);
    this.#team = team;
    this.#work = team.add({ kind: 'bf16-product', data });
  }

  /**
   * Computes y ← ending(x · Wᵀ). Blocks until done.
   *
   * @param matrix index in the constructor's matrices
   */
  multiply(matrix: number, ending: Bf16Ending, rows: ProductRows, numRows: number): void {
    const { x, y, other } = rows;
    const { weights, columns } = this.#matrices[matrix]!;
    const { out, in: inner } = weights.dims;
    const { numThreads } = this.#team;
    const unitRows = ROW_STEP * Math.ceil(Math.min(MAX_UNIT_ROWS, numRows / numThreads) / ROW_STEP);
    const sharesColumns = numRows <= MAX_COLUMN_ROWS && columns.length > 1 && this.#has(x, y, other);
    const sharesRows = numThreads > 1 && unitRows >= MIN_UNIT_ROWS && out <= MAX_SHARED_WIDTH;
    if (!sharesColumns && !sharesRows) return this.#wholeOf(matrix, ending).run(weights, rows, numRows);
    const numComputed = computedRows(numRows);
    assert(x.length >= numComputed * inner && y.length >= numComputed * out, `no room for ${numComputed} rows`);
    assert.equal(other !== null, endingTakesOther(ending), `another matrix, or none, after ${ending}`);
    assert(other === null || other.length >= numComputed * out, `too few rows of the other matrix for ${numComputed}`);
    assert.equal(computedRows(unitRows), unitRows, 'a unit would write rows of the next one');
    const placeOf = (data: ArrayBufferView) => (sharesColumns ? BigInt(data.byteOffset) : this.#addressOf(data));
    const cells = this.#cells;
    cells[BF16_CELL.matrix] = BigInt(matrix);
    cells[BF16_CELL.numRows] = BigInt(numRows);
    cells[BF16_CELL.rowsPerUnit] = sharesColumns ? 0n : BigInt(unitRows);
    cells[BF16_CELL.x] = placeOf(x);
    cells[BF16_CELL.y] = placeOf(y);
    cells[BF16_CELL.other] = other === null ? 0n : placeOf(other);
    cells[BF16_CELL.ending] = BigInt(ENDING_NAMES.indexOf(ending));
    this.#useThreads(1);
    const numUnits = sharesColumns ? columns.length : Math.ceil(numRows / unitRows);
    this.#team.run(this.#work, numUnits, true, this.#compute);
  }

  /** Sets the library's threads for the next product of this thread. */
  #useThreads(count: number): void {
    openBf16Library(this.#library.path, count);
  }

  #has(...all: readonly (ArrayBufferView | null)[]): boolean {
    return all.every((data) => data === null || data.buffer === this.#memory.shared.buffer);
  }

  close(): void {
    for (const product of this.#whole.values()) product.close();
    this.#own.close();
  }

  #wholeOf(matrix: number, ending: Bf16Ending): Bf16Product {
    const { weights } = this.#matrices[matrix]!;
    this.#useThreads(this.#team.numThreads);
    const shape = `${weights.dims.out} ${weights.dims.in} ${ending}`;
    let product = this.#whole.get(shape);
    if (product === undefined) {
      product = new Bf16Product(this.#library, weights, ending);
      this.#whole.set(shape, product);
    }
    return product;
  }

  #addressOf({ buffer, byteOffset }: ArrayBufferView): bigint {
    let start = this.#addresses.get(buffer);
    if (start === undefined) {
      start = addressOf(new Uint8Array(buffer));
      this.#addresses.set(buffer, start);
    }
    return start + BigInt(byteOffset);
  }
}
