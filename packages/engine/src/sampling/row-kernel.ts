import * as wasm from './wasm-code.ts';
import type { Code } from './wasm-code.ts';

/**
 * Two loops over a row of logits in WebAssembly SIMD, four float32 at a time: together 0.15 ms at V = 49,152 where JavaScript needs 0.36.
 * The module is assembled here, which is smaller than a tool chain. softmax.ts has the same mathematics for single tokens.
 *
 * Memory: the row, padded with -Infinity to whole blocks; then a float32 maximum a block; then a float64 sum a block.
 */
export interface RowKernel {
  readonly row: Float32Array; // [V]
  readonly blockMaxima: Float32Array; // [numBlocks]
  readonly blockSums: Float64Array; // [numBlocks]
  /** Fills `blockMaxima`. A block that holds a NaN has the maximum NaN. */
  findMaxima(): void;
  /** Fills `blockSums` with Σ exp((x - maximum) / T), terms at or below e^-50 as 0. */
  sumExponentials(maximum: number, inverseTemperature: number): void;
}

/** Tokens of a block. 128: 384 blocks at V = 49,152; a draw rescans one, and the k-th block maximum is a tight bound for the k-th logit. */
export const BLOCK_SIZE = 128;
const BLOCK_BYTES = BLOCK_SIZE * 4;
const PAGE_BYTES = 65_536;

export function createRowKernel(vocabSize: number): RowKernel {
  const numBlocks = Math.ceil(vocabSize / BLOCK_SIZE);
  const maximaAt = numBlocks * BLOCK_BYTES;
  const sumsAt = Math.ceil((maximaAt + numBlocks * 4) / 8) * 8;
  const memory = new WebAssembly.Memory({ initial: Math.ceil((sumsAt + numBlocks * 8) / PAGE_BYTES) });
  const kernel = new WebAssembly.Instance(compiledModule(), { host: { memory } }).exports;
  new Float32Array(memory.buffer, 0, numBlocks * BLOCK_SIZE).fill(-Infinity);
  return {
    row: new Float32Array(memory.buffer, 0, vocabSize),
    blockMaxima: new Float32Array(memory.buffer, maximaAt, numBlocks),
    blockSums: new Float64Array(memory.buffer, sumsAt, numBlocks),
    findMaxima: () => kernel.findMaxima(0, maximaAt, maximaAt),
    sumExponentials: (maximum, inverseTemperature) =>
      kernel.sumExponentials(0, maximaAt, sumsAt, maximum, inverseTemperature),
  };
}

// The part of the JavaScript API used here; its types come with the browser's library, which this package has no other use for.
declare const WebAssembly: {
  Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer };
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: KernelExports };
};
interface KernelExports {
  findMaxima(row: number, rowEnd: number, out: number): void;
  sumExponentials(row: number, rowEnd: number, out: number, maximum: number, inverseTemperature: number): void;
}

let compiled: object | undefined;
function compiledModule(): object {
  const { I32, F32, V128 } = wasm;
  compiled ??= new WebAssembly.Module(
    wasm.encodeModule([
      {
        name: 'findMaxima',
        parameters: [I32, I32, I32],
        locals: [
          [1, I32],
          [2, V128],
        ],
        code: findMaximaCode(),
      },
      {
        name: 'sumExponentials',
        parameters: [I32, I32, I32, F32, F32],
        locals: [
          [1, I32],
          [8, V128],
        ],
        code: sumExponentialsCode(),
      },
    ]),
  );
  return compiled;
}

function findMaximaCode(): Code {
  const { code, get, set, load4, max4, maxF32, lane4 } = wasm;
  const [row, rowEnd, out, blockEnd, a, b] = [0, 1, 2, 3, 4, 5];
  const fold = (into: number, offset: number): Code => code(get(into), get(row), load4(offset), max4, set(into));
  const lane = (index: number): Code => code(get(a), lane4(index));
  return wasm.repeatWhileBelow(
    row,
    rowEnd,
    code(
      code(get(row), wasm.i32(BLOCK_BYTES), wasm.addI32, set(blockEnd)),
      code(wasm.fill4(-Infinity), set(a), wasm.fill4(-Infinity), set(b)),
      wasm.repeatWhileBelow(row, blockEnd, code(fold(a, 0), fold(b, 16), wasm.advance(row, 32))),
      code(get(a), get(b), max4, set(a)),
      code(get(out), lane(0), lane(1), maxF32, lane(2), lane(3), maxF32, maxF32, wasm.storeF32),
      wasm.advance(out, 4),
    ),
  );
}

// Cephes expf: e^r = 1 + r + r² P(r) for |r| <= ln 2 / 2, relative error below 2e-7.
const EXP_COEFFICIENTS = [
  1.98756915e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
];
// ln 2 in two parts, the first with few bits, so that n times it is exact.
const LN2_HIGH = 0.693359375;
const LN2_LOW = -2.1219444e-4;

function sumExponentialsCode(): Code {
  const { code, get, set, fill4, add4, multiply4, subtract4 } = wasm;
  const [row, rowEnd, out, maximum, inverseTemperature, blockEnd] = [0, 1, 2, 3, 4, 5];
  const [maximum4, inverse4, x, n, r, y, low, high] = [6, 7, 8, 9, 10, 11, 12, 13];
  const [first, ...rest] = EXP_COEFFICIENTS;
  const horner = code(fill4(first!), ...rest.map((coefficient) => code(get(r), multiply4, fill4(coefficient), add4)));
  const minusMultipleOfN = (value: number): Code => code(get(n), fill4(value), multiply4, subtract4);
  return code(
    code(get(maximum), wasm.splat4, set(maximum4), get(inverseTemperature), wasm.splat4, set(inverse4)),
    wasm.repeatWhileBelow(
      row,
      rowEnd,
      code(
        code(get(row), wasm.i32(BLOCK_BYTES), wasm.addI32, set(blockEnd)),
        code(fill4(0), set(low), fill4(0), set(high)),
        wasm.repeatWhileBelow(
          row,
          blockEnd,
          code(
            // x = (logit - maximum) / T = n ln 2 + r
            code(get(row), wasm.load4(0), get(maximum4), subtract4, get(inverse4), multiply4, set(x)),
            code(get(x), fill4(Math.LOG2E), multiply4, wasm.nearest4, set(n)),
            code(get(x), minusMultipleOfN(LN2_HIGH), minusMultipleOfN(LN2_LOW), set(r)),
            // e^r, times 2^n as a float32 with nothing but an exponent
            code(horner, get(r), multiply4, get(r), multiply4, get(r), add4, fill4(1), add4),
            code(
              get(n),
              wasm.toInteger4,
              wasm.fill4Integer(127),
              wasm.addInteger4,
              wasm.i32(23),
              wasm.shiftLeft4,
              multiply4,
            ),
            // Lanes with x <= -50 hold anything by now, after -Infinity a NaN: this makes them 0.
            code(get(x), fill4(-50), wasm.greater4, wasm.and, set(y)),
            code(get(low), get(y), wasm.widenLow, wasm.add2, set(low)),
            code(get(high), get(y), get(y), wasm.highLanesDown, wasm.widenLow, wasm.add2, set(high)),
            wasm.advance(row, 16),
          ),
        ),
        code(get(low), get(high), wasm.add2, set(low)),
        code(get(out), get(low), wasm.lane2(0), get(low), wasm.lane2(1), wasm.addF64, wasm.storeF64),
        wasm.advance(out, 8),
      ),
    ),
  );
}
