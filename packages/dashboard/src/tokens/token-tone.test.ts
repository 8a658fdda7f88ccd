import { expect, test } from 'vitest';

import { formatProbability, surpriseLevel, visibleToken } from './token-tone.ts';

test('a token is stronger the less likely it was', () => {
  expect([0.9, 0.5, 0.2, 0.05, 0.001].map((p) => surpriseLevel(Math.log(p)))).toEqual([0, 1, 2, 3, 4]);
  expect(surpriseLevel(null)).toBe(0);
});

test('probabilities and tokens have readable forms', () => {
  expect([0, Math.log(0.5), Math.log(0.012), Math.log(3e-7)].map(formatProbability)).toEqual([
    '100 %',
    '50 %',
    '1.2 %',
    '3e-7',
  ]);
  expect([' a\n', '\t', ''].map(visibleToken)).toEqual(['␣a↵', '⇥', '∅']);
});
