import { expect, test } from 'vitest';

import { type HostSample, tokenRates } from './host-history.ts';

const sample = (at: number, generatedTokens: number | null): HostSample => ({
  at,
  load: 1,
  memory: 0.5,
  generatedTokens,
});

test('rates are tokens between two polls over their time, never below 0', () => {
  expect(tokenRates([sample(0, 0), sample(2, 100), sample(4, 40), sample(6, 140)])).toEqual({
    x: [2, 4, 6],
    y: [50, 0, 50],
  });
  expect(tokenRates([sample(0, null), sample(2, 5)])).toEqual({ x: [], y: [] });
  expect(tokenRates([sample(0, 1), sample(0, 5)])).toEqual({ x: [], y: [] });
});
