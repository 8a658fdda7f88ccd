import { ALGORITHM, DATA_TYPE, describeMatrix } from './onednn-library.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';

/** Weights [out, in]. */
export interface MatrixDims {
  readonly out: number;
  readonly in: number;
}

/** A product p and what y was become y: y ← p, y + p, silu(y + p), (y + p) ∘ factor. */
export type Bf16Ending = 'plain' | 'added' | 'silu' | 'times';

/**
 * y ← ending(y, x · Wᵀ), with x and W in bf16, and y and the sums in single precision.
 *
 * @param weights layout of Wᵀ [in, out]
 * @returns what a primitive is made of, the caller's to destroy
 */
export function createMatmul(
  library: OneDnnLibrary,
  numRows: number,
  { out: width, in: inner }: MatrixDims,
  weights: Address,
  ending: Bf16Ending,
): Address {
  const x = describeMatrix(library, DATA_TYPE.bf16, [numRows, inner]);
  const y = describeMatrix(library, DATA_TYPE.f32, [numRows, width]);
  const post = library.made((out) => library.postCreate(out));
  const attributes = library.made((out) => library.attributesCreate(out));
  try {
    if (ending !== 'plain') library.check(library.postAddSum(post, 1, 0, DATA_TYPE.f32));
    if (ending === 'silu') library.check(library.postAddElementwise(post, ALGORITHM.swish, 1, 0));
    if (ending === 'times') library.check(library.postAddBinary(post, ALGORITHM.multiply, y));
    library.check(library.attributesSetPost(attributes, post));
    return library.made((out) => library.matmulCreate(out, library.engine, x, weights, 0n, y, attributes));
  } finally {
    library.attributesDestroy(attributes);
    library.postDestroy(post);
    for (const description of [x, y]) library.descriptionDestroy(description);
  }
}
