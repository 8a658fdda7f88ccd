import { expect, test } from 'vitest';

import { cachedValues } from './served-model-memory.ts';

const of = (fields: Record<string, unknown>) =>
  cachedValues(
    new Map([
      ['general.architecture', 'x'],
      ...Object.entries(fields).map(([key, value]) => [`x.${key}`, value] as const),
    ] as [string, never][]),
  );
const sizes = { block_count: 30, embedding_length: 576, 'attention.head_count': 9 };

test('keys and values of a token are counted over layers and key heads', () => {
  // SmolLM2-135M: 16,384 tokens in half precision take 377 MB.
  expect(of({ ...sizes, 'attention.head_count_kv': 3 }) * 2 * 16_384).toBe(377_487_360);
});

test('heads may have sizes of their own, and layers numbers of heads', () => {
  expect(of({ ...sizes, 'attention.head_count_kv': 3, 'attention.key_length': 128 })).toBe(30 * 3 * (128 + 64));
  expect(of({ ...sizes, 'attention.head_count_kv': [3, 0, 1] })).toBe(4 * 128);
  expect(of({ ...sizes, block_count: 2n })).toBe(2 * 9 * 128);
});

test('without sizes of attention there is nothing to cache', () => {
  expect(of({ block_count: 4 })).toBe(0);
});
