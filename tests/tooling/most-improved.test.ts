import { expect, test } from 'vitest';

import { mostImproved } from '../../examples/demo/most-improved.ts';

const groups = (...rewards: number[][]) =>
  rewards.map((own) => ({ trajectories: own.map((reward) => ({ messages_and_choices: [], reward })) }));

test('the prompt whose mean reward rose most', () => {
  expect(mostImproved(groups([1, 1], [0, 0], [0, 1]), groups([1, 1], [1, 0], [1, 1]))).toBe(1);
  expect(mostImproved(groups([0.5], [0.2]), groups([0.6], [0.9]))).toBe(1);
  // If all fell, the smallest fall is shown.
  expect(mostImproved(groups([1], [1]), groups([0], [0.5]))).toBe(1);
});

test('the first prompt if groups are missing', () => {
  expect(mostImproved(groups([0], [0]), groups([1]))).toBe(0);
  expect(mostImproved([], [])).toBe(0);
});
