import {
  type Bf16Library,
  type Bf16Matrix,
  Bf16Product,
  Bf16Rounding,
  Bf16Weights,
  BorrowedBf16Weights,
  computedRows,
  openBf16Library,
} from '@trainyard/native';
import {
  floats,
  type MatrixRows,
  type OutsideProducts,
  type ProjectionName,
  type Tensor,
} from '@trainyard/transformer';
import type { TokenRange } from '../model/token-range.ts';
import type { Bf16Places, MatrixPlaces } from './bf16-matrices.ts';

/** One thread's compiled primitives, and memory for inputs. */
export class Bf16Multiplier {
  readonly library: Bf16Library;
  readonly #products = new Map<string, Bf16Product>();
  readonly #roundings = new Map<number, Bf16Rounding>();
  #rounded = new Uint16Array(0);
  /** Copy of rows that end with their memory. */
  #copied = new Float32Array(0);

  constructor(libraryPath: string, numThreads: number) {
    this.library = openBf16Library(libraryPath, numThreads);
  }

  /**
   * Computes into ← x · Wᵀ, with x rounded to bf16.
   *
   * @param x [rows, in]
   * @param into [rows, out], with room for `computedRows`
   */
  multiply(weights: Bf16Matrix, x: Tensor, into: Float32Array): void {
    const { dims } = weights;
    const numRows = x.dims[0]!;
    const size = computedRows(numRows) * dims.in;
    if (this.#rounded.length < size) this.#rounded = new Uint16Array(new ArrayBuffer(2 * size));
    this.#roundingOf(dims.in).run(this.#padded(floats(x), size), this.#rounded, numRows);
    this.#productOf(weights).run(weights, { x: this.#rounded, y: into, other: null }, numRows);
  }

  close(): void {
    for (const one of [...this.#products.values(), ...this.#roundings.values()]) one.close();
    this.#products.clear();
    this.#roundings.clear();
  }

  #padded(x: Float32Array, size: number): Float32Array {
    // Padding rows are rounded too; their values do not matter.
    if (x.byteOffset + 4 * size <= x.buffer.byteLength) return new Float32Array(x.buffer, x.byteOffset, size);
    if (this.#copied.length < size) this.#copied = new Float32Array(new ArrayBuffer(4 * size));
    this.#copied.set(x);
    return this.#copied;
  }

  #productOf(weights: Bf16Matrix): Bf16Product {
    const shape = `${weights.dims.out} ${weights.dims.in}`;
    let product = this.#products.get(shape);
    if (product === undefined) {
      product = new Bf16Product(this.library, weights, 'plain');
      this.#products.set(shape, product);
    }
    return product;
  }

  #roundingOf(width: number): Bf16Rounding {
    let rounding = this.#roundings.get(width);
    if (rounding === undefined) {
      rounding = new Bf16Rounding(this.library, width);
      this.#roundings.set(width, rounding);
    }
    return rounding;
  }
}

abstract class NamedProducts implements OutsideProducts {
  readonly #multiplier: Bf16Multiplier;

  constructor(multiplier: Bf16Multiplier) {
    this.#multiplier = multiplier;
  }

  protected abstract matrixOf(name: string, isTransposed: boolean): Bf16Matrix;

  widthOf(matrix: string, isTransposed: boolean): number {
    return this.matrixOf(matrix, isTransposed).dims.out;
  }

  computedRows(numRows: number): number {
    return computedRows(numRows);
  }

  multiply(matrix: string, isTransposed: boolean, x: Tensor, into: Float32Array): void {
    this.#multiplier.multiply(this.matrixOf(matrix, isTransposed), x, into);
  }
}

/** The matrices' memory is shared by all threads. */
export class BlockProducts extends NamedProducts {
  readonly #matrices: ReadonlyMap<string, readonly [forward: BorrowedBf16Weights, backward: BorrowedBf16Weights]>;

  constructor(multiplier: Bf16Multiplier, places: Readonly<Record<ProjectionName, MatrixPlaces>>) {
    super(multiplier);
    const borrow = (place: MatrixPlaces['forward']) => new BorrowedBf16Weights(multiplier.library, place);
    this.#matrices = new Map(
      Object.entries(places).map(([name, { forward, backward }]) => [name, [borrow(forward), borrow(backward)]]),
    );
  }

  close(): void {
    for (const both of this.#matrices.values()) for (const weights of both) weights.close();
  }

  protected override matrixOf(name: string, isTransposed: boolean): Bf16Matrix {
    return this.#matrices.get(name)![isTransposed ? 1 : 0];
  }
}

/** Parts of the vocabulary that only this lane computes, rounded at first use. */
export class VocabularyProducts {
  readonly #multiplier: Bf16Multiplier;
  readonly #vocabulary: MatrixRows;
  /** Parts by first column. */
  readonly #parts = new Map<number, PartProducts>();

  constructor(multiplier: Bf16Multiplier, vocabulary: MatrixRows) {
    this.#multiplier = multiplier;
    this.#vocabulary = vocabulary;
  }

  /** @param columns must have the same end for the same start */
  of({ start, end }: TokenRange): OutsideProducts {
    let part = this.#parts.get(start);
    if (part === undefined) {
      const data = this.#vocabulary.rows(start, end);
      part = new PartProducts(this.#multiplier, data, end - start, this.#vocabulary.columns);
      this.#parts.set(start, part);
    }
    return part;
  }

  close(): void {
    for (const part of this.#parts.values()) part.close();
    this.#parts.clear();
  }
}

class PartProducts extends NamedProducts {
  readonly #forward: Bf16Weights;
  readonly #backward: Bf16Weights;

  constructor(multiplier: Bf16Multiplier, data: Float32Array, numColumns: number, hiddenSize: number) {
    super(multiplier);
    this.#forward = new Bf16Weights(multiplier.library, data, { out: numColumns, in: hiddenSize });
    const transposed = { out: hiddenSize, in: numColumns };
    this.#backward = new Bf16Weights(multiplier.library, data, transposed, { isTransposed: true });
  }

  close(): void {
    this.#forward.close();
    this.#backward.close();
  }

  protected override matrixOf(_name: string, isTransposed: boolean): Bf16Matrix {
    return isTransposed ? this.#backward : this.#forward;
  }
}

export interface LaneProducts {
  readonly blocks: readonly BlockProducts[];
  readonly vocabulary: VocabularyProducts;
  close(): void;
}

export function laneProducts(
  { libraryPath, blocks: places }: Bf16Places,
  vocabulary: MatrixRows,
  numThreads: number,
): LaneProducts {
  const multiplier = new Bf16Multiplier(libraryPath, numThreads);
  const blocks = places.map((place) => new BlockProducts(multiplier, place));
  const parts = new VocabularyProducts(multiplier, vocabulary);
  const close = () => {
    multiplier.close();
    parts.close();
    for (const block of blocks) block.close();
  };
  return { blocks, vocabulary: parts, close };
}
