/** Rounded rows against the rule: the nearer of the two adjacent bf16, on ties the even one. */
import { randomSource } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { DecoderMemory } from '../memory/decoder-memory.ts';
import { RoundedRows } from './rounded-rows.ts';

const random = randomSource(3);
const below = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16;
const numberOf = (bf16: number): number => new Float32Array(Uint32Array.of(bf16 << 16).buffer)[0]!;

/** Nearest bf16 in exact arithmetic: a float64 holds the midpoints. */
function nearest(value: number): number {
  if (!Number.isFinite(value)) return below(value);
  const low = below(value);
  // The next one away from 0. Infinity follows the largest and counts as its power of two.
  const high = low + 1;
  const end = Number.isFinite(numberOf(high)) ? numberOf(high) : Math.sign(value) * 2 ** 128;
  const [toLow, toHigh] = [Math.abs(value - numberOf(low)), Math.abs(end - value)];
  if (toLow === toHigh) return low % 2 === 0 ? low : high;
  return toLow < toHigh ? low : high;
}

test.each([1, 7, 8, 9, 576 * 64])('%i numbers', (length) => {
  const memory = new DecoderMemory(1 << 20);
  const rows = memory.take(length);
  const rounded = new RoundedRows(memory, length);
  const behind = memory.take(4);
  rows.set(Float32Array.from({ length }, () => random() * 10 ** (30 * random())));
  rounded.round(rows);
  expect([...rounded.data.subarray(0, length)]).toEqual(Array.from(rows, nearest));
  expect([...behind]).toEqual([0, 0, 0, 0]);
});

test('ties, the largest and the least numbers, NaN and infinity', () => {
  const memory = new DecoderMemory(1 << 16);
  const zeros = [0x0000_0000, 0x8000_0000];
  const ties = [0x3f80_8000, 0x3f81_8000, 0xbf80_8000, 0x0000_8000, 0x0001_8000, 0x7f7f_8000];
  const besideTies = [0x3f80_8001, 0x3f80_7fff, 0x7f7f_7fff, 0x8000_8001];
  const extremes = [0xff7f_ffff, 0x0000_0001, 0x7f80_0000, 0xff80_0000];
  const values = new Float32Array(Uint32Array.from([...zeros, ...ties, ...besideTies, ...extremes]).buffer);
  const rows = memory.take(values.length + 4);
  rows.set(values);
  // Quiet NaN, negative NaN, and two whose upper half is infinite.
  new Uint32Array(rows.buffer, rows.byteOffset + values.byteLength, 4).set([
    0x7fc0_0000, 0xffff_ffff, 0x7f80_0001, 0xff80_ffff,
  ]);
  const rounded = new RoundedRows(memory, rows.length);
  rounded.round(rows);
  expect([...rounded.data.subarray(0, values.length)]).toEqual(Array.from(values, nearest));
  for (const bits of rounded.data.subarray(values.length, rows.length)) expect(numberOf(bits)).toBeNaN();
});

test('rows of another memory are refused, and more than there is room for', () => {
  const memory = new DecoderMemory(1 << 16);
  const rounded = new RoundedRows(memory, 16);
  expect(() => rounded.round(new Float32Array(8))).toThrow('rows of another memory');
  expect(() => rounded.round(memory.take(17))).toThrow('no room for 17 numbers');
});
