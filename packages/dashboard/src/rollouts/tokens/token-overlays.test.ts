import { expect, test } from 'vitest';

import { isClipped, lossRatios, overlayLevel, ratioRule } from './token-overlays.ts';

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

const RULE = { low: 0.8, high: 1.3, level: 'token' } as const;

test('a ratio is clipped outside the bounds of its job', () => {
  expect(ratioRule({ importance_sampling_level: 'token', epsilon: 0.2, epsilon_high: 0.3 })).toEqual(RULE);
  expect(ratioRule({ importance_sampling_level: 'token', epsilon: 0.2 })).toEqual({ ...RULE, high: 1.2 });
  expect(ratioRule({ importance_sampling_level: 'token' })).toBeNull();
  expect([0.7, 0.81, 1.29, 1.31].map((ratio) => isClipped(ratio, RULE))).toEqual([true, false, false, true]);
  expect(isClipped(9, null)).toBe(false);
  expect(isClipped(null, RULE)).toBe(false);
});

test.each([
  ['token', [2, 0.5, 1]],
  // (ln 2 + ln 0.5 + 0) / 3 = 0: the unknown one counts as no change.
  ['sequence', [1, 1, 1]],
  ['average', [1.5, 0.75, 1]],
  ['geometric_average', [Math.SQRT2, Math.SQRT1_2, 1]],
] as const)('ratios of the level %s are those of the loss', (level, expected) => {
  const tokens = {
    ...sequence(0),
    is_trained: [false, true, true, true],
    sampled_logprobs: [null, -1, -1, null],
    trained_logprobs: [null, -1 + Math.LN2, -1 - Math.LN2, -3],
  };
  const [context, ...ratios] = lossRatios(tokens, level);
  expect(context).toBeNull();
  ratios.forEach((ratio, index) => expect(ratio).toBeCloseTo(expected[index]!, 12));
  expect(lossRatios({ ...tokens, trained_logprobs: [null, null, null, null] }, level)).toEqual([
    null,
    null,
    null,
    null,
  ]);
});
