import assert from 'node:assert';
import type { Bf16Library } from './bf16-library.ts';
import type { Bf16Matrix } from './bf16-weights.ts';
import { createMatmul, endingTakesOther, otherPlace } from './matmul.ts';
import type { Bf16Ending, MatrixDims } from './matmul.ts';
import { ARGUMENT, DATA_TYPE, describeMatrix, oneDnnLibrary, postOperand } from './onednn-library.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';
import { Primitive } from './primitive.ts';
import type { DataAt } from './primitive.ts';
import { computedRows, RowPrimitives } from './row-primitives.ts';

type AnyData = ArrayBufferView | DataAt;

/** Addresses of a product's matrices, with space for {@link computedRows}. */
export interface ProductPlaces {
  readonly x: Address;
  readonly y: Address;
  /** z, for endings that have one. */
  readonly other: Address | null;
}

/** Matrices of a product, with space for {@link computedRows}; values of y after the rows are undefined. */
export interface ProductRows {
  readonly x: Uint16Array; // [numRows, in]
  readonly y: Float32Array; // [numRows, out]
  /** z, for endings that have one. */
  readonly other: Float32Array | null; // [numRows, out]
}

/** Blocks the calling thread, which the library's threads help. */
export class Bf16Product {
  readonly #dims: MatrixDims;
  readonly #ending: Bf16Ending;
  readonly #layout: Address;
  readonly #primitives: RowPrimitives;

  /** @param example weights of the common shape; open as long as this object */
  constructor({ path }: Bf16Library, example: Bf16Matrix, ending: Bf16Ending) {
    const library = oneDnnLibrary(path);
    this.#dims = example.dims;
    this.#ending = ending;
    this.#layout = example.layout;
    this.#primitives = new RowPrimitives((rows) => this.#compile(library, rows));
  }

  run(weights: Bf16Matrix, { x, y, other }: ProductRows, numRows: number): void {
    const rows = computedRows(numRows);
    const { out, in: inner } = this.#dims;
    assert(x.length >= rows * inner && y.length >= rows * out, `no room for ${rows} rows`);
    assert(other === null || other.length >= rows * out, `too few rows of the other matrix for ${rows}`);
    this.#run(weights, rows, { x, y, other });
  }

  runAt(weights: Bf16Matrix, { x, y, other }: ProductPlaces, numRows: number): void {
    const places = { x: { address: x }, y: { address: y }, other: other === null ? null : { address: other } };
    this.#run(weights, computedRows(numRows), places);
  }

  close(): void {
    this.#primitives.close();
  }

  #run(weights: Bf16Matrix, rows: number, { x, y, other }: { x: AnyData; y: AnyData; other: AnyData | null }): void {
    const { out, in: inner } = this.#dims;
    assert(weights.dims.out === out && weights.dims.in === inner, 'weights of another shape');
    assert.equal(other !== null, endingTakesOther(this.#ending), `another matrix, or none, after ${this.#ending}`);
    const data = [x, weights.memory, y];
    this.#primitives.of(rows).run(other === null ? data : [...data, other]);
  }

  #compile(library: OneDnnLibrary, rows: number): Primitive {
    const x = describeMatrix(library, DATA_TYPE.bf16, [rows, this.#dims.in]);
    const y = describeMatrix(library, DATA_TYPE.f32, [rows, this.#dims.out]);
    const place = otherPlace(this.#ending);
    const other: [number, Address][] = place === null ? [] : [[postOperand(place), y]];
    try {
      return new Primitive(
        library,
        createMatmul(library, rows, { dims: this.#dims, layout: this.#layout }, this.#ending),
        [[ARGUMENT.from, x], [ARGUMENT.weights, this.#layout], [ARGUMENT.to, y], ...other],
      );
    } finally {
      for (const description of [x, y]) library.descriptionDestroy(description);
    }
  }
}
