import { ALGORITHM, DATA_TYPE, describeMatrix } from './onednn-library.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';

export interface MatrixDims {
  readonly out: number;
  readonly in: number;
}

interface Ending {
  /** True if the product is added to the previous y. */
  readonly adds: boolean;
  /** Function of the sum, or combination with another matrix of its shape. */
  readonly next: 'silu' | 'plus' | 'times' | null;
}

/** Endings of a product p, assigned to y: p, y + p, p + z, silu(p), silu(y + p), p ∘ z, (y + p) ∘ z. */
export const BF16_ENDINGS = {
  plain: { adds: false, next: null },
  added: { adds: true, next: null },
  plus: { adds: false, next: 'plus' },
  silu: { adds: false, next: 'silu' },
  addedSilu: { adds: true, next: 'silu' },
  times: { adds: false, next: 'times' },
  addedTimes: { adds: true, next: 'times' },
} as const satisfies Readonly<Record<string, Ending>>;
export type Bf16Ending = keyof typeof BF16_ENDINGS;

/** True if an ending has a z. */
export const endingTakesOther = (ending: Bf16Ending): boolean => otherPlace(ending) !== null;

/** Index of the operation with z among the post-operations. */
export function otherPlace(ending: Bf16Ending): number | null {
  const { adds, next }: Ending = BF16_ENDINGS[ending];
  return next === 'plus' || next === 'times' ? Number(adds) : null;
}

/**
 * Creates the primitive y ← ending(y, x · Wᵀ), with x and W in bf16, and y and the sums in single precision.
 *
 * @param weights dimensions and layout of Wᵀ [in, out]
 * @returns the description of a primitive, which the caller must destroy
 */
export function createMatmul(
  library: OneDnnLibrary,
  numRows: number,
  weights: { readonly dims: MatrixDims; readonly layout: Address },
  ending: Bf16Ending,
): Address {
  const { out: width, in: inner } = weights.dims;
  const x = describeMatrix(library, DATA_TYPE.bf16, [numRows, inner]);
  const y = describeMatrix(library, DATA_TYPE.f32, [numRows, width]);
  const post = library.made((out) => library.postCreate(out));
  const attributes = library.made((out) => library.attributesCreate(out));
  try {
    const { adds, next }: Ending = BF16_ENDINGS[ending];
    if (adds) library.check(library.postAddSum(post, 1, 0, DATA_TYPE.f32));
    if (next === 'silu') library.check(library.postAddElementwise(post, ALGORITHM.swish, 1, 0));
    if (next === 'plus') library.check(library.postAddBinary(post, ALGORITHM.add, y));
    if (next === 'times') library.check(library.postAddBinary(post, ALGORITHM.multiply, y));
    library.check(library.attributesSetPost(attributes, post));
    return library.made((out) => library.matmulCreate(out, library.engine, x, weights.layout, 0n, y, attributes));
  } finally {
    library.attributesDestroy(attributes);
    library.postDestroy(post);
    for (const description of [x, y]) library.descriptionDestroy(description);
  }
}
