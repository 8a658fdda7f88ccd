import * as wasm from '../wasm/wasm-code.ts';
import type { Code, WasmFunction } from '../wasm/wasm-code.ts';
import { SUM_VALUES } from './sum-of-products.ts';

/** Rows of x in a vector. */
const LANES = 4;
/** Rows of x that are multiplied together, in two vectors, or in one if so few remain. */
export const GROUP_X_ROWS = 2 * LANES;
/** Rows of W that are multiplied together. */
export const MAX_WEIGHT_ROWS = 4;
/** Inputs per turn of the inner loop: rows of W must be multiples. */
export const INPUT_STEP = 4;

/**
 * Kernel y += x · Wᵀ for 4 or 8 rows of x and one to four rows of W, which are float32. The order of sums is that of
 * ONNX Runtime's product by constants. Addresses and sizes are bytes; x is [in, rows], y [rows of W, rows].
 */
// oxlint-disable-next-line eslint/max-params -- a WebAssembly function
export type ExpandedKernel = (x: number, xEnd: number, weights: number, weightRowBytes: number, y: number) => void;

/** Copies single float32: `from` and `to` advance by their steps until `to` reaches `end`; at least one. */
// oxlint-disable-next-line eslint/max-params -- a WebAssembly function
export type CopyStrided = (from: number, fromStep: number, to: number, toStep: number, end: number) => void;

export const expandedName = (numXRows: number, numWeightRows: number): string => `x${numXRows}w${numWeightRows}`;

export function expandedModule(): Uint8Array<ArrayBuffer> {
  const counts = Array.from({ length: MAX_WEIGHT_ROWS }, (_, i) => i + 1);
  const kernels = [1, 2].flatMap((numVectors) => counts.map((count) => kernel(numVectors, count)));
  return wasm.encodeModule([...kernels, copyStrided()], { isShared: true });
}

function kernel(numVectors: number, numWeightRows: number): WasmFunction {
  const { I32, V128, code, get, set, load4, addI32, i32, advance } = wasm;
  const [x, xEnd, weights, weightRowBytes, y] = [0, 1, 2, 3, 4];
  const [xAt, sumEnd, weightsAt] = [5, 6, 7];
  const xVector = weightsAt + numWeightRows;
  const weight = xVector + numVectors;
  const sums = weight + 1;
  const xBytes = 4 * LANES * numVectors;
  const rows = Array.from({ length: numWeightRows }, (_, row) => row);
  const vectors = Array.from({ length: numVectors }, (_, vector) => vector);
  const sumOf = (row: number, vector: number): number => sums + row * numVectors + vector;
  const eachSum = (of: (sum: number, at: number) => Code): Code =>
    code(...rows.flatMap((row) => vectors.map((vector) => of(sumOf(row, vector), 16 * (row * numVectors + vector)))));
  const input = (index: number): Code =>
    code(
      ...vectors.map((vector) => code(get(xAt), load4(index * xBytes + 16 * vector), set(xVector + vector))),
      ...rows.map((row) =>
        code(
          get(weightsAt + row),
          wasm.loadSplat4(4 * index),
          set(weight),
          ...vectors.map((vector) =>
            code(
              get(xVector + vector),
              get(weight),
              get(sumOf(row, vector)),
              wasm.multiplyAdd4,
              set(sumOf(row, vector)),
            ),
          ),
        ),
      ),
    );
  const inputs = code(
    wasm.repeat(INPUT_STEP, input),
    advance(xAt, INPUT_STEP * xBytes),
    ...rows.map((row) => advance(weightsAt + row, 4 * INPUT_STEP)),
  );
  return {
    name: expandedName(LANES * numVectors, numWeightRows),
    parameters: [I32, I32, I32, I32, I32],
    locals: [
      [2 + numWeightRows, I32],
      [numVectors + 1 + numWeightRows * numVectors, V128],
    ],
    code: code(
      get(x),
      set(xAt),
      ...rows.map((row) =>
        row === 0
          ? code(get(weights), set(weightsAt))
          : code(get(weightsAt + row - 1), get(weightRowBytes), addI32, set(weightsAt + row)),
      ),
      wasm.repeatWhileBelow(
        xAt,
        xEnd,
        code(
          eachSum((sum) => code(wasm.fill4(0), set(sum))),
          code(get(xAt), i32(SUM_VALUES * xBytes), addI32, set(sumEnd), wasm.lesser(sumEnd, xEnd), set(sumEnd)),
          wasm.repeatWhileBelow(xAt, sumEnd, inputs),
          eachSum((sum, at) => code(get(y), get(y), load4(at), get(sum), wasm.add4, wasm.store4(at))),
        ),
      ),
    ),
  };
}

function copyStrided(): WasmFunction {
  const { I32, code, get, set, addI32 } = wasm;
  const [from, fromStep, to, toStep, end] = [0, 1, 2, 3, 4];
  const step = (local: number, by: number): Code => code(get(local), get(by), addI32, set(local));
  return {
    name: 'copyStrided',
    parameters: [I32, I32, I32, I32, I32],
    locals: [],
    code: wasm.repeatWhileBelow(
      to,
      end,
      code(get(to), get(from), wasm.loadF32(0), wasm.storeF32(0), step(from, fromStep), step(to, toStep)),
    ),
  };
}
