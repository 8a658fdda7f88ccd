import { expect, test } from 'vitest';

import { linearRange, logFloor, logRange } from './chart-range.ts';

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

test('a logarithmic axis has whole decades and the good values; 0 is a decade below the least value', () => {
  expect(logRange(4e-6, 5e-6, { from: 1e-6, to: 1e-3 })).toEqual([1e-6, 1e-3]);
  expect(logRange(4e-6, 0.2, { from: 0, to: 1e-3 })).toEqual([1e-6, 1]);
  expect(logRange(1, 1, undefined)).toEqual([1, 10]);
  expect(logFloor([0, 4e-6, 1])).toBeCloseTo(1e-7, 20);
  expect(logFloor([0, -1])).toBeNull();
});
