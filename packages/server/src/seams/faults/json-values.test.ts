import { expect, test } from 'vitest';

import { hasMoreValues } from './json-values.ts';

test.each([
  [1, 1],
  ['text', 1],
  [null, 1],
  [[], 1],
  [{}, 1],
  [[1, 2, 3], 4],
  [{ a: 1, b: [1, { c: null }] }, 6],
  [[[[]]], 3],
])('%j has so many values: %i', (value, count) => {
  expect(hasMoreValues(value, count)).toBe(false);
  expect(hasMoreValues(value, count - 1)).toBe(true);
});
