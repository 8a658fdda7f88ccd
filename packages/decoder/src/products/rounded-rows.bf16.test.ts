/** Rounded rows against oneDNN's own rounding. */
import { Bf16Rounding, openBf16Library } from '@trainyard/native';
import { randomSource } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { DecoderMemory } from '../memory/decoder-memory.ts';
import { RoundedRows } from './rounded-rows.ts';

test('numbers are rounded as oneDNN rounds them', () => {
  const length = 64 * 576;
  const memory = new DecoderMemory(1 << 20);
  const rows = memory.take(length);
  const random = randomSource(5);
  rows.set(Float32Array.from({ length }, (_, i) => (i % 3 === 0 ? 1 + (i % 512) / 512 : random() * 10 ** random())));
  const rounded = new RoundedRows(memory, length);
  rounded.round(rows);
  const expected = new Uint16Array(new ArrayBuffer(2 * length));
  const rounding = new Bf16Rounding(openBf16Library(process.env['TRAINYARD_TEST_BF16_LIBRARY']!, 1), 576);
  rounding.run(rows, expected, 64);
  rounding.close();
  expect(
    Buffer.compare(
      new Uint8Array(rounded.data.buffer, rounded.data.byteOffset, 2 * length).slice(),
      new Uint8Array(expected.buffer),
    ),
  ).toBe(0);
});
