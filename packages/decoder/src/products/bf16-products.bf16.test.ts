/** Rows that threads share, against the library's product of all of them. */
import { Bf16Product, Bf16Weights, computedRows, openBf16Library } from '@trainyard/native';
import type { Bf16Ending } from '@trainyard/native';
import { randomSource } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { ThreadTeam } from '../team/thread-team.ts';
import { Bf16Products } from './bf16-products.ts';

const library = openBf16Library(process.env['TRAINYARD_BF16_LIBRARY']!, 2);
const closed: { close(): void }[] = [];
afterAll(() => {
  for (const one of closed.reverse()) one.close();
});
const kept = <T extends { close(): void }>(one: T): T => {
  closed.push(one);
  return one;
};
const random = randomSource(3);
const floats = (length: number) => Float32Array.from({ length }, random);
/** Numbers between 1/2 and 2, with either sign. */
const bf16 = (length: number) =>
  Uint16Array.from({ length }, () => (random() < 0 ? 0xbf00 : 0x3f00) + Math.floor(127 * Math.abs(random())));

const FACTORS: readonly [Bf16Ending, { in: number; out: number }][] = [
  ['added', { in: 576, out: 960 }],
  ['silu', { in: 70, out: 33 }],
  ['times', { in: 128, out: 96 }],
  // Wider than what threads share.
  ['plain', { in: 64, out: 20_000 }],
];

test.each([1, 2, 3])('%d threads', (numThreads) => {
  const team = kept(new ThreadTeam(numThreads));
  const factors = FACTORS.map(([ending, dims]) => {
    return { ending, weights: kept(new Bf16Weights(library, floats(dims.out * dims.in), dims)) };
  });
  const products = kept(new Bf16Products(library, factors, team));
  let largest = 0;
  for (const [index, { ending, weights }] of factors.entries()) {
    const { dims } = weights;
    const whole = kept(new Bf16Product(library, weights, ending));
    for (const numRows of [1, 8, 31, 32, 33, 64, 100, 300, 520]) {
      if (dims.out > 10_000 && numRows > 64) continue;
      const rows = computedRows(numRows);
      const x = bf16(rows * dims.in);
      const before = floats(rows * dims.out);
      const factor = ending === 'times' ? floats(rows * dims.out) : null;
      const [expected, found] = [before.slice(), before.slice()];
      whole.run(weights, x, expected, numRows, factor);
      products.multiply(index, x, found, numRows, factor);
      for (let i = 0; i < numRows * dims.out; i++)
        largest = Math.max(largest, Math.abs(found[i]! - expected[i]!) / Math.max(1, Math.abs(expected[i]!)));
    }
  }
  console.log(`${numThreads} threads: largest difference ${largest.toExponential(1)}`);
  expect(largest).toBeLessThan(1e-5);
  expect(() => products.multiply(0, new Uint16Array(10), floats(960 * 64), 64)).toThrow('no room for 64 rows');
  expect(() => products.multiply(2, bf16(128 * 64), floats(96 * 64), 64)).toThrow('a factor is for `times` alone');
});
