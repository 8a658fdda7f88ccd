import assert from 'node:assert';
import type { Bf16Library } from './bf16-library.ts';
import type { Bf16Matrix } from './bf16-weights.ts';
import { createMatmul } from './matmul.ts';
import type { Bf16Ending, MatrixDims } from './matmul.ts';
import { ARGUMENT, DATA_TYPE, describeMatrix, oneDnnLibrary, postOperand } from './onednn-library.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';
import { Primitive } from './primitive.ts';
import type { DataAt } from './primitive.ts';
import { computedRows, RowPrimitives } from './row-primitives.ts';

/** Addresses of the matrices of a product, which have room for what is computed besides. */
export interface ProductPlaces {
  readonly x: Address;
  readonly y: Address;
  /** For the ending `times`, and for no other. */
  readonly factor: Address | null;
}

/** y ← ending(y, x · Wᵀ) for any number of rows. Blocks the calling thread, which the library's threads help. */
export class Bf16Product {
  readonly #dims: MatrixDims;
  readonly #ending: Bf16Ending;
  readonly #layout: Address;
  readonly #primitives: RowPrimitives;

  /** @param example weights of the shape that all will have; open as long as this is */
  constructor({ path }: Bf16Library, example: Bf16Matrix, ending: Bf16Ending) {
    const library = oneDnnLibrary(path);
    this.#dims = example.dims;
    this.#ending = ending;
    this.#layout = example.layout;
    this.#primitives = new RowPrimitives((rows) => this.#compile(library, rows));
  }

  /**
   * @param x [numRows, in] and @param y [numRows, out], with room for {@link computedRows}: what lies behind the rows is computed too, and means nothing
   * @param factor as y; for the ending `times`, and for no other
   */
  run(weights: Bf16Matrix, x: Uint16Array, y: Float32Array, numRows: number, factor: Float32Array | null = null): void {
    const rows = computedRows(numRows);
    const { out, in: inner } = this.#dims;
    assert(x.length >= rows * inner && y.length >= rows * out, `no room for ${rows} rows`);
    assert(factor === null || factor.length >= rows * out, `no factors for ${rows} rows`);
    this.#run(weights, rows, x, y, factor);
  }

  /** The same for matrices of other threads. */
  runAt(weights: Bf16Matrix, { x, y, factor }: ProductPlaces, numRows: number): void {
    const factors = factor === null ? null : { address: factor };
    this.#run(weights, computedRows(numRows), { address: x }, { address: y }, factors);
  }

  close(): void {
    this.#primitives.close();
  }

  #run(
    weights: Bf16Matrix,
    rows: number,
    x: ArrayBufferView | DataAt,
    y: ArrayBufferView | DataAt,
    factor: ArrayBufferView | DataAt | null,
  ): void {
    const { out, in: inner } = this.#dims;
    assert(weights.dims.out === out && weights.dims.in === inner, 'weights of another shape');
    assert.equal(factor !== null, this.#ending === 'times', 'a factor is for `times` alone');
    const data = [x, weights.memory, y];
    this.#primitives.of(rows).run(factor === null ? data : [...data, factor]);
  }

  #compile(library: OneDnnLibrary, rows: number): Primitive {
    const x = describeMatrix(library, DATA_TYPE.bf16, [rows, this.#dims.in]);
    const y = describeMatrix(library, DATA_TYPE.f32, [rows, this.#dims.out]);
    // Behind the sum, which is the first of what follows a product.
    const factor: [number, Address][] = this.#ending === 'times' ? [[postOperand(1), y]] : [];
    try {
      return new Primitive(library, createMatmul(library, rows, this.#dims, this.#layout, this.#ending), [
        [ARGUMENT.from, x],
        [ARGUMENT.weights, this.#layout],
        [ARGUMENT.to, y],
        ...factor,
      ]);
    } finally {
      for (const description of [x, y]) library.descriptionDestroy(description);
    }
  }
}
