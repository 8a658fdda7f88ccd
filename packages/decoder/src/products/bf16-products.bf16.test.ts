/** Rows and columns shared by threads, against the library's whole product. */
import {
  Bf16Columns,
  Bf16Product,
  Bf16Weights,
  computedRows,
  endingTakesOther,
  openBf16Library,
} from '@trainyard/native';
import type { Bf16Ending } from '@trainyard/native';
import { randomSource } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { DecoderMemory } from '../memory/decoder-memory.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { Bf16Products } from './bf16-products.ts';

const library = openBf16Library(process.env['TRAINYARD_TEST_BF16_LIBRARY']!, 2);
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
/** Random numbers with a magnitude between 1/2 and 2. */
const bf16 = (length: number) =>
  Uint16Array.from({ length }, () => (random() < 0 ? 0xbf00 : 0x3f00) + Math.floor(127 * Math.abs(random())));

const FACTORS: readonly [endings: readonly Bf16Ending[], { in: number; out: number }][] = [
  [['added', 'plain', 'plus'], { in: 576, out: 960 }],
  [['silu', 'addedSilu'], { in: 70, out: 33 }],
  [['times', 'addedTimes', 'plus', 'silu'], { in: 128, out: 96 }],
  // Wider than threads share.
  [['plain'], { in: 64, out: 20_000 }],
];

test.each([1, 2, 3])('%d threads', (numThreads) => {
  const team = kept(new ThreadTeam(numThreads));
  const memory = new DecoderMemory(120_000_000);
  const factors = FACTORS.map(([endings, dims]) => {
    const data = floats(dims.out * dims.in);
    const weights = kept(new Bf16Weights(library, data, dims));
    const cut = Bf16Columns.of(library, weights, data, numThreads);
    if (cut !== null) kept(cut);
    return { endings, weights, columns: cut?.placesIn(weights) ?? [] };
  });
  // Ranges have at least 64 columns; narrower matrices are not cut.
  expect(factors.map(({ columns }) => columns.length)).toEqual([numThreads, 1, Math.min(2, numThreads), numThreads]);
  const products = kept(new Bf16Products(library, factors, memory, team));
  const inMemory = <Data extends Uint16Array | Float32Array>(data: Data): Data => {
    const block = memory.take(Math.ceil(data.byteLength / 4));
    const copy = data instanceof Float32Array ? block : new Uint16Array(block.buffer, block.byteOffset, data.length);
    copy.set(data);
    return copy as Data;
  };
  let [largest, largestOwn] = [0, 0];
  const all = factors.flatMap(({ endings, weights }, index) => endings.map((ending) => ({ index, ending, weights })));
  for (const { index, ending, weights } of all) {
    const { dims } = weights;
    const whole = kept(new Bf16Product(library, weights, ending));
    for (const numRows of [1, 3, 8, 9, 31, 32, 33, 100, 300]) {
      if (dims.out > 10_000 && numRows > 9) continue;
      const rows = computedRows(numRows);
      const x = bf16(rows * dims.in);
      const before = floats(rows * dims.out);
      const other = endingTakesOther(ending) ? floats(rows * dims.out) : null;
      const [expected, found] = [before.slice(), before.slice()];
      whole.run(weights, { x, y: expected, other }, numRows);
      products.multiply(index, ending, { x, y: found, other }, numRows);
      // Columns are shared only within the decoder's memory.
      const [own, others] = [inMemory(before), other === null ? null : inMemory(other)];
      products.multiply(index, ending, { x: inMemory(x), y: own, other: others }, numRows);
      for (let i = 0; i < numRows * dims.out; i++) largestOwn = Math.max(largestOwn, Math.abs(own[i]! - found[i]!));
      for (let i = 0; i < numRows * dims.out; i++)
        largest = Math.max(largest, Math.abs(found[i]! - expected[i]!) / Math.max(1, Math.abs(expected[i]!)));
    }
  }
  console.log(`${numThreads} threads: largest difference ${largest.toExponential(1)}`);
  expect(largest).toBeLessThan(1e-5);
  expect(largestOwn).toBeLessThan(5e-5);
  const short = { x: new Uint16Array(10), y: floats(960 * 64), other: null };
  expect(() => products.multiply(0, 'added', short, 64)).toThrow('no room for 64 rows');
  const alone = { x: bf16(128 * 64), y: floats(96 * 64), other: null };
  expect(() => products.multiply(2, 'times', alone, 64)).toThrow('another matrix, or none, after times');
});
