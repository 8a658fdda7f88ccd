import * as wasm from './wasm-code.ts';
import type { Code } from './wasm-code.ts';

// Cephes expf: e^r = 1 + r + r² P(r) for |r| <= ln 2 / 2, relative error below 2e-7.
const EXP_COEFFICIENTS = [
  1.98756915e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
];
// ln 2 in two parts, the first with few bits, so that n times it is exact.
const LN2_HIGH = 0.693359375;
const LN2_LOW = -2.1219444e-4;

/**
 * Leaves e^x on the stack, for four x <= 0 in local `x`; 0 where x <= -50. Locals `n` and `r` are written.
 */
export function exponential4(x: number, n: number, r: number): Code {
  const { code, get, set, fill4, add4, multiply4, subtract4 } = wasm;
  const [first, ...rest] = EXP_COEFFICIENTS;
  const horner = code(fill4(first!), ...rest.map((coefficient) => code(get(r), multiply4, fill4(coefficient), add4)));
  const minusMultipleOfN = (value: number): Code => code(get(n), fill4(value), multiply4, subtract4);
  return code(
    // x = n ln 2 + r
    code(get(x), fill4(Math.LOG2E), multiply4, wasm.nearest4, set(n)),
    code(get(x), minusMultipleOfN(LN2_HIGH), minusMultipleOfN(LN2_LOW), set(r)),
    // e^r, times 2^n as a float32 with nothing but an exponent
    code(horner, get(r), multiply4, get(r), multiply4, get(r), add4, fill4(1), add4),
    code(get(n), wasm.toInteger4, wasm.fill4Integer(127), wasm.addInteger4, wasm.i32(23), wasm.shiftLeft4, multiply4),
    // Lanes with x <= -50 hold anything by now, after -Infinity a NaN: this makes them 0.
    code(get(x), fill4(-50), wasm.greater4, wasm.and),
  );
}
