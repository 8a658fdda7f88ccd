import { expect, test } from 'vitest';

import { isClipped, overlayLevel, ratioBounds } from './token-overlays.ts';

const sequence = (gap: number, entropy = 0) => ({
  gradient_step: 0,
  advantage: -0.6,
  weight: 1,
  token_ids: [1],
  texts: ['a'],
  is_trained: [true],
  sampled_logprobs: [-1],
  trained_logprobs: [-1 + gap],
  entropies: [entropy],
});

test.each([
  [0, 0],
  [9e-5, 0],
  [-9e-5, 0],
  [2e-4, 1],
  [-2e-3, -2],
  [0.05, 3],
  [-0.2, -4],
])('a gap of %d has the level %d: an exact run has no colour', (gap, level) => {
  expect(overlayLevel('gap', sequence(gap), 0)).toBe(level);
});

test.each([
  [0.05, 0],
  [0.7, 2],
  [3, 4],
])('an entropy of %d nats has the level %d', (entropy, level) => {
  expect(overlayLevel('entropy', sequence(0, entropy), 0)).toBe(level);
});

test('a ratio is clipped outside the bounds of its job, unless the loss has one ratio per sequence', () => {
  const bounds = ratioBounds({ importance_sampling_level: 'token', epsilon: 0.2, epsilon_high: 0.3 });
  expect(bounds).toEqual({ low: 0.8, high: 1.3 });
  const clipped = [0.7, 0.81, 1.29, 1.31].map((ratio) => isClipped(sequence(Math.log(ratio)), 0, bounds));
  expect(clipped).toEqual([true, false, false, true]);
  expect(ratioBounds({ importance_sampling_level: 'sequence', epsilon: 0.2 })).toBeNull();
  expect(isClipped(sequence(9), 0, null)).toBe(false);
});
