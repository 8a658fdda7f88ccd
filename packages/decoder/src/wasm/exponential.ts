import * as wasm from './wasm-code.ts';
import type { Code } from './wasm-code.ts';

/** V8 rebuilds a constant vector at each use, which takes longer than reading it from memory. */
const CONSTANTS = {
  /** A whole vocabulary of terms at or below e^-50 is below the resolution of a sum of at least 1. */
  smallest: -50,
  log2OfE: Math.LOG2E,
  /** 1.5 · 2^23: adding it to a float32 rounds to a whole number, held in the last bits of the sum. */
  rounder: 12_582_912,
  // -ln 2 in two parts, the first with few bits, so that n times it is exact.
  minusLn2High: -0.693359375,
  minusLn2Low: 2.1219444e-4,
  // Cephes expf: e^r = 1 + r + r² P(r) for |r| <= ln 2 / 2, relative error below 2e-7.
  p0: 1.98756915e-4,
  p1: 1.3981999507e-3,
  p2: 8.3334519073e-3,
  p3: 4.1665795894e-2,
  p4: 1.6666665459e-1,
  p5: 5.0000001201e-1,
  /** Bits of 127 in the exponent of a float32. */
  one: 1,
} as const;
/** Float32 values to write at the address of the constants. */
export const EXPONENTIAL_CONSTANTS: readonly number[] = Object.values(CONSTANTS);
const offsetOf = (name: keyof typeof CONSTANTS): number => 4 * Object.keys(CONSTANTS).indexOf(name);

/** Locals of {@link exponentials4}; four vectors of each fill the registers. */
export interface ExponentialLocals {
  readonly constants: number;
  /** Exponents, replaced by their exponentials. */
  readonly x: readonly number[];
  /** Scratch, one for each of `x`. */
  readonly powers: readonly number[];
  readonly series: readonly number[];
  readonly shared: number;
}

/**
 * Computes x = e^x for vectors of four x <= 0; 0 if x <= -50, NaN for NaN. Vectors are interleaved because each
 * step waits for the one before.
 */
export function exponentials4({ constants, x, powers, series, shared }: ExponentialLocals): Code {
  const { code, get, set, multiplyAdd4, multiply4 } = wasm;
  const each = (one: (x: number, power: number, series: number) => Code): Code =>
    code(...x.map((vector, i) => one(vector, powers[i]!, series[i]!)));
  const withConstant = (name: keyof typeof CONSTANTS, body: Code): Code =>
    code(get(constants), wasm.loadSplat4(offsetOf(name)), set(shared), body);
  return code(
    // If x is too small the power is 0 and the series stays finite.
    withConstant(
      'smallest',
      each((x, power) =>
        code(code(get(x), get(shared), wasm.notAbove4, set(power)), code(get(x), get(shared), wasm.greaterOf4, set(x))),
      ),
    ),
    // x = n ln 2 + r
    withConstant(
      'log2OfE',
      each((x, _, series) => code(get(x), get(shared), multiply4, set(series))),
    ),
    withConstant(
      'rounder',
      each((_, __, series) => code(get(series), get(shared), wasm.add4, set(series))),
    ),
    // The power is 2^n: a float32 with only an exponent.
    withConstant(
      'one',
      each((_, power, series) =>
        code(
          code(get(series), wasm.i32(23), wasm.shiftLeft4, get(shared), wasm.addInteger4),
          code(get(power), wasm.andNot, set(power)),
        ),
      ),
    ),
    withConstant(
      'rounder',
      each((_, __, series) => code(get(series), get(shared), wasm.subtract4, set(series))),
    ),
    ...(['minusLn2High', 'minusLn2Low'] as const).map((part) =>
      withConstant(
        part,
        each((x, _, series) => code(get(series), get(shared), get(x), multiplyAdd4, set(x))),
      ),
    ),
    withConstant(
      'p0',
      each((_, __, series) => code(get(shared), set(series))),
    ),
    ...(['p1', 'p2', 'p3', 'p4', 'p5'] as const).map((coefficient) =>
      withConstant(
        coefficient,
        each((x, _, series) => code(get(series), get(x), get(shared), multiplyAdd4, set(series))),
      ),
    ),
    each((x, _, series) => code(get(series), get(x), get(x), multiply4, get(x), multiplyAdd4, set(x))),
    withConstant(
      'one',
      each((x, power) => code(get(x), get(shared), wasm.add4, get(power), multiply4, set(x))),
    ),
  );
}
