import { expect, test } from 'vitest';
import { columnRanges } from './column-ranges.ts';

test.each([
  [576, 1, [576]],
  [576, 2, [288, 288]],
  [1536, 3, [512, 512, 512]],
  // Multiples of 32 except the last, at least 64 per thread.
  [580, 2, [320, 260]],
  [96, 8, [64, 32]],
  [64, 2, [64]],
  // Widths that cannot be copied four at a time stay whole.
  [578, 2, [578]],
])('%i columns for %i threads', (width, most, counts) => {
  const ranges = columnRanges(width, most);
  expect(ranges.map(({ count }) => count)).toEqual(counts);
  expect(ranges.length).toBeLessThanOrEqual(most);
  let next = 0;
  for (const { first, count } of ranges) {
    expect(first).toBe(next);
    next += count;
  }
  expect(next).toBe(width);
});
