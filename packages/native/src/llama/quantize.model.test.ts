import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { GgufFile, quantizeModel } from '../index.ts';
import type { QuantizationType } from '../index.ts';

const { base } = testModel();
const folder = mkdtempSync(join(tmpdir(), 'quantize-'));
afterAll(() => rmSync(folder, { recursive: true }));

const MATRIX = 'blk.0.ffn_up.weight';

/** Largest difference between two tensors, in units of the largest value. */
function relativeDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length);
  let difference = 0;
  let scale = 0;
  for (let i = 0; i < a.length; i++) {
    difference = Math.max(difference, Math.abs(a[i]! - b[i]!));
    scale = Math.max(scale, Math.abs(a[i]!));
  }
  return difference / scale;
}

// Half a step of each type, relative to the largest value: 11 and 8 bits of mantissa, 127 and 7 steps to the
// block's largest.
test.each<[QuantizationType, number]>([
  ['f16', 2 ** -12],
  ['bf16', 2 ** -9],
  ['q8_0', 1 / 127],
  ['q4_0', 1 / 7],
])('a copy in %s has the values of the original within a step', (type, tolerance) => {
  const path = join(folder, `${type}.gguf`);
  quantizeModel(base, path, type, 2);
  using original = GgufFile.open(base);
  using copy = GgufFile.open(path);
  expect(copy.tensors.get(MATRIX)).toMatchObject({ dims: original.tensors.get(MATRIX)!.dims, type });
  expect([...copy.tensors.keys()].toSorted()).toEqual([...original.tensors.keys()].toSorted());
  const difference = relativeDifference(original.readF32(MATRIX), copy.readF32(MATRIX));
  console.log(`${type}: largest difference ${difference} of the largest value`);
  expect(difference).toBeLessThanOrEqual(tolerance);
  expect(readdirSync(folder)).toEqual([`${type}.gguf`]);
  rmSync(path);
});

test('an unreadable file is not written', () => {
  const text = join(folder, 'text.gguf');
  writeFileSync(text, 'not a model');
  expect(() => quantizeModel(text, join(folder, 'out.gguf'), 'f16', 1)).toThrow(
    expect.objectContaining({ code: 'native.quantize_failed', message: expect.stringMatching(/invalid magic/) }),
  );
  expect(() => quantizeModel(base, join(folder, 'absent', 'out.gguf'), 'f16', 1)).toThrow(
    expect.objectContaining({ code: 'native.quantize_failed' }),
  );
  expect(readdirSync(folder)).toEqual(['text.gguf']);
});
