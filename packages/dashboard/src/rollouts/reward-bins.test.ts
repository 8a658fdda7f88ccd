import { expect, test } from 'vitest';

import { isInBin, rewardBins } from './reward-bins.ts';

test('few distinct rewards have a bin each, in order', () => {
  expect(rewardBins([1, 0, 1, 0.5])).toEqual([
    { from: 0, to: 0, count: 1, isPoint: true },
    { from: 0.5, to: 0.5, count: 1, isPoint: true },
    { from: 1, to: 1, count: 2, isPoint: true },
  ]);
  expect(rewardBins([])).toEqual([]);
  expect(rewardBins([3, 3])).toEqual([{ from: 3, to: 3, count: 2, isPoint: true }]);
});

test.each([
  [Array.from({ length: 1000 }, (_, i) => Math.sin(i) * 7)],
  [[-1e308, 1e308, ...Array.from({ length: 50 }, (_, i) => i)]],
])('every reward is in exactly one bin, and the counts match', (rewards) => {
  const bins = rewardBins(rewards);
  const found = bins.map(
    (bin, index) => rewards.filter((reward) => isInBin(reward, bin, index === bins.length - 1)).length,
  );
  expect(found).toEqual(bins.map(({ count }) => count));
  expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(rewards.length);
  for (const [index, bin] of bins.entries()) if (index > 0) expect(bin.from).toBe(bins[index - 1]?.to);
});
