/** Values that ONNX Runtime (MLAS) sums one by one from 0 before it adds the sum to the result; so do all kernels. */
export const SUM_VALUES = 256;

/** Rows to which products are added, and the result; one array if `sum` is overwritten. */
export interface SumOfProducts {
  /** [rows, out]; null: 0 */
  readonly sum: Float32Array | null;
  /** [rows, out] */
  readonly y: Float32Array;
}

/** y = sum */
export function startSum({ sum, y }: SumOfProducts): void {
  if (sum === null) y.fill(0);
  else if (sum.byteOffset !== y.byteOffset || sum.buffer !== y.buffer) y.set(sum);
}
