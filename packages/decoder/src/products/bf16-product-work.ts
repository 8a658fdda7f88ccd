import { Bf16Product, BorrowedBf16Weights, openBf16Library } from '@trainyard/native';
import type { Bf16Ending, Bf16Library, Bf16Place } from '@trainyard/native';

/** A matrix as threads are sent it. */
export interface Bf16MatrixData {
  readonly ending: Bf16Ending;
  readonly place: Bf16Place;
}

/** Products as threads are sent them: valid as long as the weights are open. */
export interface Bf16ProductWorkData {
  readonly libraryPath: string;
  readonly matrices: readonly Bf16MatrixData[];
  readonly cells: BigUint64Array;
}

/** Places of what changes from product to product. Addresses are those of the process. */
export const BF16_CELL = {
  matrix: 0,
  numRows: 1,
  rowsPerUnit: 2,
  x: 3,
  y: 4,
  /** 0: none. */
  factor: 5,
} as const;

/** One thread's part of a product: a unit is some rows. Each thread computes by itself, by what it has compiled. */
export class Bf16ProductWork {
  readonly #library: Bf16Library;
  readonly #matrices: readonly Bf16MatrixData[];
  readonly #cells: BigUint64Array;
  /** By matrix, at first use. */
  readonly #weights: (BorrowedBf16Weights | undefined)[];
  /** By shape and ending. */
  readonly #products = new Map<string, Bf16Product>();

  constructor({ libraryPath, matrices, cells }: Bf16ProductWorkData) {
    this.#library = openBf16Library(libraryPath, 1);
    this.#matrices = matrices;
    this.#cells = cells;
    this.#weights = matrices.map(() => undefined);
  }

  compute(unit: number): void {
    const cells = this.#cells;
    const value = (name: keyof typeof BF16_CELL): number => Number(cells[BF16_CELL[name]]!);
    const index = value('matrix');
    const { ending, place } = this.#matrices[index]!;
    const weights = (this.#weights[index] ??= new BorrowedBf16Weights(this.#library, place));
    const { out, in: inner } = place.dims;
    const first = unit * value('rowsPerUnit');
    const numRows = Math.min(value('numRows') - first, value('rowsPerUnit'));
    const ofResult = BigInt(4 * first * out);
    const factor = cells[BF16_CELL.factor]!;
    const places = {
      x: cells[BF16_CELL.x]! + BigInt(2 * first * inner),
      y: cells[BF16_CELL.y]! + ofResult,
      factor: factor === 0n ? null : factor + ofResult,
    };
    this.#productOf(weights, ending).runAt(weights, places, numRows);
  }

  close(): void {
    for (const product of this.#products.values()) product.close();
    this.#products.clear();
    for (const weights of this.#weights.splice(0)) weights?.close();
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
