import { expect, test } from 'vitest';
import { toHalves, toInterleaved } from './head-permutation.ts';

test('interleaving heads undoes bringing them into halves', () => {
  const matrix = Float32Array.from({ length: 2 * 4 * 3 }, (_, i) => i);
  const halves = toHalves(matrix, 2, 3);
  // Head 0 has rows 0 to 3: the even ones come first.
  expect(Array.from(halves.subarray(0, 12))).toEqual([0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]);
  expect(Array.from(toInterleaved(halves, 2, 3))).toEqual(Array.from(matrix));
});
