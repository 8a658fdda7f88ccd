import type { WeightFormat } from './quantised-code.ts';

/** Rows of a matrix whose tensors have one format. */
export interface QuantisedPart {
  readonly format: WeightFormat;
  readonly address: number;
  readonly firstRow: number;
  readonly numRows: number;
}

/** A weight matrix in the kernels' layout, [out, in]. */
export interface QuantisedMatrix {
  readonly out: number;
  readonly in: number;
  readonly parts: readonly QuantisedPart[];
}
