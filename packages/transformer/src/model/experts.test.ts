import { expect, test } from 'vitest';
import { randomSource } from '../testing/tiny-model.ts';
import { chooseExperts, type Experts, expertShares, scoreGradient, slotsByExpert } from './experts.ts';

const EXPERTS: Experts = {
  count: 5,
  used: 2,
  feedForwardSize: 4,
  normalisesShares: true,
  hasBiases: false,
  hasSharedFeedForward: false,
  denseLayers: [],
};

function routed(scores: Float32Array, experts: Experts) {
  const numTokens = scores.length / experts.count;
  const chosen = new Int32Array(numTokens * experts.used);
  const shares = new Float32Array(numTokens * experts.used);
  chooseExperts(scores, experts, chosen);
  expertShares(scores, experts, chosen, shares);
  return { chosen, shares };
}

test('the experts of a token are those of its highest scores, the first of equal ones, in ascending order', () => {
  const scores = Float32Array.of(0, 3, 1, 2, -1, 7, 7, 7, 7, 7, NaN, NaN, 1, NaN, 2, -Infinity, -5, -Infinity, -6, 1);
  expect([...routed(scores, EXPERTS).chosen]).toEqual([1, 3, 0, 1, 0, 1, 1, 4]);
});

test('shares are a softmax over the chosen experts, or over all', () => {
  const scores = Float32Array.of(0, 3, 1, 2, -1);
  const sum = (values: number[]) => values.reduce((total, value) => total + Math.exp(value), 0);
  for (const [normalisesShares, others] of [
    [true, [3, 2]],
    [false, [...scores]],
  ] as const) {
    const { shares } = routed(scores, { ...EXPERTS, normalisesShares });
    expect(shares[0]).toBeCloseTo(Math.exp(3) / sum([...others]), 6);
    expect(shares[1]).toBeCloseTo(Math.exp(2) / sum([...others]), 6);
  }
});

test.each([true, false])(
  'the gradient of scores equals finite differences (shares sum to 1: %s)',
  (normalisesShares) => {
    const experts = { ...EXPERTS, normalisesShares };
    const random = randomSource(3);
    const scores = Float32Array.from({ length: 3 * experts.count }, () => 2 * random());
    const { chosen, shares } = routed(scores, experts);
    const weights = Float32Array.from(shares, random);
    const gradient = new Float32Array(scores.length);
    scoreGradient({ scores, chosen, shares }, experts, weights, gradient);
    const lossAt = (at: number, by: number) => {
      const moved = scores.slice();
      moved[at]! += by;
      const found = new Float32Array(shares.length);
      expertShares(moved, experts, chosen, found);
      return found.reduce((sum, share, i) => sum + share * weights[i]!, 0);
    };
    const step = 2 ** -7;
    const worst = Math.max(
      ...gradient.map((value, at) => Math.abs(value - (lossAt(at, step) - lossAt(at, -step)) / (2 * step))),
    );
    console.log(`largest difference ${worst.toExponential(1)}`);
    expect(worst).toBeLessThan(3e-5);
  },
);

test('tokens are grouped by expert, without those that take no part', () => {
  const { starts, tokens, slotOf } = slotsByExpert(Int32Array.of(1, 3, -1, -1, 0, 1), EXPERTS);
  expect([...starts]).toEqual([0, 1, 3, 3, 4, 4]);
  expect([...tokens]).toEqual([2, 0, 2, 0]);
  expect([...slotOf]).toEqual([1, 3, -1, -1, 0, 2]);
});
