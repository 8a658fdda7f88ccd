import assert from 'node:assert';
import type { Bf16Library } from './bf16-library.ts';
import { createMatmul } from './matmul.ts';
import type { MatrixDims } from './matmul.ts';
import {
  ARGUMENT,
  DATA_TYPE,
  describeAnyLayout,
  describeMatrix,
  oneDnnLibrary,
  weightsLayout,
} from './onednn-library.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';
import { Primitive } from './primitive.ts';

/** Rows of the product whose preferred layout the weights get; products of other sizes read the same layout. */
const TYPICAL_ROWS = 64;
const OWN_DATA = 0xffff_ffff_ffff_ffffn;

export interface Bf16Matrix {
  readonly dims: MatrixDims;
  readonly layout: Address;
  readonly memory: Address;
}

/** Place of weights in this process, for its other threads; valid while they are open. */
export interface Bf16Place {
  readonly dims: MatrixDims;
  readonly layout: Address;
  readonly data: Address;
}

/** Weights in bf16, rounded to the nearest, in the library's layout. */
export class Bf16Weights implements Bf16Matrix {
  readonly dims: MatrixDims;
  readonly layout: Address;
  readonly #library: OneDnnLibrary;
  #memory: Address;

  /** @param data [out, in], or [in, out] if transposed; read only by the constructor */
  constructor(
    { path }: Bf16Library,
    data: Float32Array,
    dims: MatrixDims,
    { isTransposed = false }: { readonly isTransposed?: boolean } = {},
  ) {
    assert.equal(data.length, dims.out * dims.in, 'a weight for each input of each output');
    const library = oneDnnLibrary(path);
    this.#library = library;
    this.dims = dims;
    const any = describeAnyLayout(library, DATA_TYPE.bf16, [dims.in, dims.out]);
    const strides = isTransposed ? ([dims.out, 1] as const) : ([1, dims.in] as const);
    const plain = describeMatrix(library, DATA_TYPE.f32, [dims.in, dims.out], strides);
    try {
      const product = createMatmul(library, TYPICAL_ROWS, { dims, layout: any }, 'plain');
      this.layout = weightsLayout(library, product);
      library.primitiveDescriptionDestroy(product);
      this.#memory = library.made((out) => library.memoryCreate(out, this.layout, library.engine, OWN_DATA));
      const reorder = library.made((out) =>
        library.reorderCreate(out, plain, library.engine, this.layout, library.engine, 0n),
      );
      using primitive = new Primitive(library, reorder, [
        [ARGUMENT.from, plain],
        [ARGUMENT.to, this.layout],
      ]);
      primitive.run([data, this.#memory]);
    } finally {
      for (const description of [any, plain]) library.descriptionDestroy(description);
    }
  }

  get memory(): Address {
    assert(this.#memory !== 0n, 'these weights are closed');
    return this.#memory;
  }

  get place(): Bf16Place {
    const data = this.#library.made((out) => this.#library.memoryGetData(this.memory, out));
    return { dims: this.dims, layout: this.layout, data };
  }

  close(): void {
    if (this.#memory === 0n) return;
    this.#library.memoryDestroy(this.#memory);
    this.#library.descriptionDestroy(this.layout);
    this.#memory = 0n;
  }
}

/** Weights owned by another thread. */
export class BorrowedBf16Weights implements Bf16Matrix {
  readonly dims: MatrixDims;
  readonly layout: Address;
  readonly #library: OneDnnLibrary;
  #memory: Address;

  constructor({ path }: Bf16Library, { dims, layout, data }: Bf16Place) {
    const library = oneDnnLibrary(path);
    this.#library = library;
    this.dims = dims;
    this.layout = layout;
    this.#memory = library.made((out) => library.memoryCreate(out, layout, library.engine, data));
  }

  get memory(): Address {
    assert(this.#memory !== 0n, 'these weights were given back');
    return this.#memory;
  }

  /** Must be called before the owner closes. */
  close(): void {
    if (this.#memory === 0n) return;
    this.#library.memoryDestroy(this.#memory);
    this.#memory = 0n;
  }
}
