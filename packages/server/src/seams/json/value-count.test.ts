import { expect, test } from 'vitest';

import { hasMoreValuesThan } from './value-count.ts';

test.each<[unknown, number]>([
  [1, 0],
  [null, 0],
  [undefined, 0],
  ['text', 0],
  [[], 0],
  [[1, 2, 3], 3],
  [{ a: 1, b: { c: [1, 2] } }, 5],
  [[[[[]]]], 3],
  [[{}, {}, { a: {} }], 4],
])('%j has %i', (value, count) => {
  expect(hasMoreValuesThan(value, count)).toBe(false);
  if (count > 0) expect(hasMoreValuesThan(value, count - 1)).toBe(true);
});

test('depth needs no stack', () => {
  let deep: unknown = 1;
  for (let level = 0; level < 1_000_000; level++) deep = [deep];
  expect(hasMoreValuesThan(deep, 1_000_000)).toBe(false);
  expect(hasMoreValuesThan(deep, 999_999)).toBe(true);
});
