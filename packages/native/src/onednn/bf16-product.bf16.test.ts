/**
 * Products against double-precision sums of the same rounded numbers; the remaining difference is the order of
 * single-precision sums.
 */
import { afterAll, expect, test } from 'vitest';
import { openBf16Library } from './bf16-library.ts';
import { Bf16Product } from './bf16-product.ts';
import { Bf16Rounding } from './bf16-rounding.ts';
import { Bf16Weights } from './bf16-weights.ts';
import { type Bf16Ending, endingTakesOther } from './matmul.ts';
import { computedRows } from './row-primitives.ts';

const library = openBf16Library(process.env['TRAINYARD_TEST_BF16_LIBRARY']!, 2);
const closed: { close(): void }[] = [];
afterAll(() => {
  for (const one of closed) one.close();
});
const kept = <T extends { close(): void }>(one: T): T => {
  closed.push(one);
  return one;
};

let state = 1;
/** -1 ≤ x < 1 */
const random = (): number => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 31 - 1;
};
const floats = (length: number): Float32Array => Float32Array.from({ length }, random);

/** Nearest bf16, ties to even: the upper half of the bits. */
function nearest(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  const rounded = (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff_0000;
  return new Float32Array(Uint32Array.of(rounded).buffer)[0]!;
}

const silu = (x: number): number => x / (1 + Math.exp(-x));
const ENDINGS: Readonly<Record<Bf16Ending, (product: number, y: number, other: number) => number>> = {
  plain: (product) => product,
  added: (product, y) => y + product,
  plus: (product, _y, other) => product + other,
  silu,
  addedSilu: (product, y) => silu(y + product),
  times: (product, _y, other) => product * other,
  addedTimes: (product, y, other) => (y + product) * other,
};

test.each(Object.keys(ENDINGS) as Bf16Ending[])('%s', (ending) => {
  let largest = 0;
  for (const dims of [
    { in: 576, out: 960 },
    { in: 70, out: 33 },
    { in: 1, out: 1 },
  ]) {
    const w = floats(dims.out * dims.in);
    const weights = kept(new Bf16Weights(library, w, dims));
    const product = kept(new Bf16Product(library, weights, ending));
    const rounding = kept(new Bf16Rounding(library, dims.in));
    for (const numRows of [1, 2, 5, 8, 17, 64, 65, 200]) {
      const rows = computedRows(numRows);
      const x = floats(rows * dims.in);
      const rounded = new Uint16Array(new ArrayBuffer(2 * x.length));
      rounding.run(x, rounded, numRows);
      expect(rounded[0]! << 16).toBe(new Int32Array(Float32Array.of(nearest(x[0]!)).buffer)[0]);
      const y = floats(rows * dims.out);
      const other = endingTakesOther(ending) ? floats(y.length) : null;
      const before = y.slice();
      product.run(weights, { x: rounded, y, other }, numRows);
      for (let row = 0; row < numRows; row += Math.max(1, numRows >> 2)) {
        for (let column = 0; column < dims.out; column += 31) {
          let sum = 0;
          for (let i = 0; i < dims.in; i++) sum += nearest(x[row * dims.in + i]!) * nearest(w[column * dims.in + i]!);
          const at = row * dims.out + column;
          const expected = ENDINGS[ending](sum, before[at]!, other?.[at] ?? NaN);
          largest = Math.max(largest, Math.abs(y[at]! - expected));
        }
      }
    }
  }
  console.log(`${ending}: largest difference ${largest.toExponential(1)}`);
  expect(largest).toBeLessThan(1e-4);
});

test('memory that is too small is refused, and weights that are closed', () => {
  const dims = { in: 4, out: 3 };
  const weights = new Bf16Weights(library, floats(12), dims);
  const product = kept(new Bf16Product(library, weights, 'times'));
  const x = new Uint16Array(new ArrayBuffer(2 * 4 * 8));
  const run = (y: number, other: Float32Array | null) => () =>
    product.run(weights, { x, y: new Float32Array(y), other }, 5);
  expect(run(3 * 5, floats(24))).toThrow('no room for 8 rows');
  expect(run(24, floats(15))).toThrow('too few rows of the other matrix for 8');
  expect(run(24, null)).toThrow('another matrix, or none, after times');
  expect(() => new Bf16Weights(library, floats(11), dims)).toThrow('a weight for each input');
  run(24, floats(24))();
  weights.close();
  expect(run(24, floats(24))).toThrow('these weights are closed');
});
