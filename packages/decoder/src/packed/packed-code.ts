import * as wasm from '../wasm/wasm-code.ts';
import type { Code, WasmFunction } from '../wasm/wasm-code.ts';
import { SUM_VALUES } from '../products/sum-of-products.ts';
import { BLOCK_VALUES, GROUP_BLOCK_BYTES, GROUP_ROWS, WASM_FORMATS, type WasmFormat } from './weight-formats.ts';

export const MAX_KERNEL_ROWS = 4;

/**
 * Kernel y += x · Wᵀ for one to four rows of x and groups of 8 rows of W. Equals ONNX Runtime's product by
 * ggml's float32 to the bit if the processor has a fused multiply-add. Addresses and sizes are bytes.
 */
// oxlint-disable-next-line eslint/max-params -- a WebAssembly function
export type ProductKernel = (
  x: number,
  xRowBytes: number,
  y: number,
  yRowBytes: number,
  weights: number,
  weightsEnd: number,
) => void;

export const kernelName = (format: WasmFormat, numRows: number): string => `${format}Times${numRows}`;

export function packedModule(): Uint8Array<ArrayBuffer> {
  const rows = Array.from({ length: MAX_KERNEL_ROWS }, (_, i) => i + 1);
  const functions = WASM_FORMATS.flatMap((format) => rows.map((count) => kernel(format, count)));
  return wasm.encodeModule(functions, { isShared: true });
}

function kernel(format: WasmFormat, numRows: number): WasmFunction {
  const { code, get, set, load4, addI32, multiplyAdd4, i32, advance } = wasm;
  const [x, xRowBytes, y, yRowBytes, weights, weightsEnd] = [0, 1, 2, 3, 4, 5];
  const xAt = 6;
  const yAt = xAt + numRows;
  const [xEnd, sumEnd] = [yAt + numRows, yAt + numRows + 1];
  const sums = sumEnd + 1;
  const [scales, offsets, bytes, eight, weight, value] = [0, 2, 4, 5, 6, 8].map((at) => sums + 2 * numRows + at);
  const rows = Array.from({ length: numRows }, (_, row) => row);

  /**
   * Multiplies one value of 8 weight rows, as 16-bit integers on the stack, by that of each row of x.
   *
   * @param place of the value in its block
   */
  const multiply = (integers: Code, place: number): Code =>
    code(
      integers,
      set(eight!),
      ...[wasm.widenHalves.low, wasm.widenHalves.high].map((widen, half) =>
        code(
          get(eight!),
          widen,
          wasm.integersToFloats4,
          get(scales! + half),
          format === 'affine4' ? code(get(offsets! + half), multiplyAdd4) : wasm.multiply4,
          set(weight! + half),
        ),
      ),
      ...rows.map((row) =>
        code(
          get(xAt + row),
          wasm.loadSplat4(4 * place),
          set(value!),
          ...[0, 1].map((half) => {
            const sum = sums + 2 * row + half;
            return code(get(value!), get(weight! + half), get(sum), multiplyAdd4, set(sum));
          }),
        ),
      ),
    );
  const loadPair = (into: number, at: number): Code =>
    code(get(weights), load4(at), set(into), get(weights), load4(at + 16), set(into + 1));
  const loadBytes = (at: number): Code => code(get(weights), load4(at), set(bytes!));
  const { low, high, lowSigned, highSigned } = wasm.widenBytes;
  const lowBits = code(get(bytes!), wasm.fill16(15), wasm.and);
  const highBits = code(get(bytes!), i32(4), wasm.shiftRight16);
  const values =
    format === 'affine4'
      ? Array.from({ length: 8 }, (_, vector) =>
          code(
            loadBytes(64 + 16 * vector),
            ...[code(lowBits, low), code(lowBits, high), code(highBits, low), code(highBits, high)].map((integers, i) =>
              multiply(integers, 4 * vector + i),
            ),
          ),
        )
      : Array.from({ length: 16 }, (_, vector) =>
          code(
            loadBytes(32 + 16 * vector),
            multiply(code(get(bytes!), lowSigned), 2 * vector),
            multiply(code(get(bytes!), highSigned), 2 * vector + 1),
          ),
        );
  const block = code(
    loadPair(scales!, 0),
    format === 'affine4' ? loadPair(offsets!, 32) : [],
    ...values,
    advance(weights, GROUP_BLOCK_BYTES[format]),
    ...rows.map((row) => advance(xAt + row, 4 * BLOCK_VALUES)),
  );
  const beginRows = (at: number, first: number, rowBytes: number): Code =>
    code(
      get(first),
      set(at),
      ...rows.slice(1).map((row) => code(get(at + row - 1), get(rowBytes), addI32, set(at + row))),
    );
  const group = code(
    beginRows(xAt, x, xRowBytes),
    beginRows(yAt, y, yRowBytes),
    code(get(x), get(xRowBytes), addI32, set(xEnd)),
    wasm.repeatWhileBelow(
      xAt,
      xEnd,
      code(
        ...rows.flatMap((row) => [0, 1].map((half) => code(wasm.fill4(0), set(sums + 2 * row + half)))),
        code(get(xAt), i32(4 * SUM_VALUES), addI32, set(sumEnd), wasm.lesser(sumEnd, xEnd), set(sumEnd)),
        wasm.repeatWhileBelow(xAt, sumEnd, block),
        ...rows.flatMap((row) =>
          [0, 1].map((half) => {
            const target = get(yAt + row);
            const sum = get(sums + 2 * row + half);
            return code(target, target, load4(16 * half), sum, wasm.add4, wasm.store4(16 * half));
          }),
        ),
      ),
    ),
    advance(y, 4 * GROUP_ROWS),
  );
  return {
    name: kernelName(format, numRows),
    parameters: [wasm.I32, wasm.I32, wasm.I32, wasm.I32, wasm.I32, wasm.I32],
    locals: [
      [2 * numRows + 2, wasm.I32],
      [2 * numRows + 9, wasm.V128],
    ],
    code: wasm.repeatWhileBelow(weights, weightsEnd, group),
  };
}
