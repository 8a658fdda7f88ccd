import { expect, test } from 'vitest';

import { linearRange, logFloor, logRange, logTicks, placeRange } from './chart-range.ts';

test.each([
  ['zeros', [0, 0], -0.05, 1.05],
  ['ones', [1, 1], -0.05, 1.05],
  ['a constant', [40, 40], -4, 84],
  ['a learning rate', [2e-4, 2e-4], -2e-5, 4.2e-4],
  ['shares', [0, 1], -0.05, 1.05],
  ['rewards', [0.4, 0.8], 0.38, 0.82],
  ['signed values', [-2, 2], -2.2, 2.2],
] as const)('a linear axis fits %s', (_, [min, max], low, high) => {
  const [from, to] = linearRange(min, max);
  expect(from).toBeCloseTo(low, 12);
  expect(to).toBeCloseTo(high, 12);
});

test('over several decades only powers of ten are drawn, at most six', () => {
  const ticks = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, decade) =>
      Array.from({ length: 9 }, (__, digit) => (digit + 1) * 10 ** (from + decade)),
    ).flat();
  const drawn = (from: number, to: number) => logTicks([...ticks(from, to), 10 ** to]).filter((tick) => tick !== null);
  expect(drawn(0, 1)).toHaveLength(10);
  expect(drawn(-6, -3).map(Math.log10)).toEqual([-6, -5, -4, -3]);
  expect(drawn(-12, 0)).toHaveLength(5);
});

test('a single place is in the middle of its axis', () => {
  expect(placeRange([7], 0, 14)).toEqual([6, 8]);
  expect(placeRange([0], 0, 100)).toEqual([0, 1]);
  expect(placeRange([0, 3, 9], 0, 9)).toEqual([0, 9]);
  expect(placeRange([], 0, 1)).toEqual([0, 1]);
});

test('a logarithmic axis has whole decades and the good values; 0 is a decade below the least value', () => {
  expect(logRange(4e-6, 5e-6, { from: 1e-6, to: 1e-3 })).toEqual([1e-6, 1e-3]);
  expect(logRange(4e-6, 0.2, { from: 0, to: 1e-3 })).toEqual([1e-6, 1]);
  expect(logRange(1, 1, undefined)).toEqual([1, 10]);
  expect(logFloor([0, 4e-6, 1])).toBeCloseTo(1e-7, 20);
  expect(logFloor([0, -1])).toBeNull();
});
