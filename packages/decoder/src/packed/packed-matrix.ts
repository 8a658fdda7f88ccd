import type { WeightFormat } from './weight-formats.ts';

/** Rows of a matrix whose tensors have one format. */
export interface PackedPart {
  readonly format: WeightFormat;
  /** In the memory of rows if WebAssembly computes, else in any shared memory. */
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  readonly firstRow: number;
  readonly numRows: number;
}

/** A weight matrix in the kernels' layout, [out, in]. */
export interface PackedMatrix {
  readonly out: number;
  readonly in: number;
  readonly parts: readonly PackedPart[];
}
