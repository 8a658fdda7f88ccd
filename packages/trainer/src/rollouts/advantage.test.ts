import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupAdvantages, moments, normalizeCredit } from './advantage.ts';

/** `reward : trained tokens`. */
type Sample = [reward: number, numTokens: number];

/** Both steps for one job. */
function creditOf(groups: Sample[][], scale: 'none' | 'std' = 'std', balance = 0) {
  const inputs = groups.flatMap((group) => {
    const advantages = groupAdvantages(
      group.map(([reward]) => reward),
      scale,
    );
    if (advantages === null) return [];
    return group.flatMap(([, numTokens], i) =>
      advantages[i] === 0 ? [] : [{ advantage: advantages[i]!, numTokens, numTrajectoryTokens: numTokens }],
    );
  });
  return normalizeCredit(inputs, balance);
}

// From ART's own code (reward : trained tokens → advantage, weight after normalising over the job), printed to
// six digits.
const TWO_GROUPS: Sample[][] = [
  [
    [0, 4],
    [1, 3],
  ],
  [
    [0, 3],
    [0.1, 3],
  ],
];
const TWO_GROUP_WEIGHTS = [0.8125, 1.083333, 1.083333, 1.083333];
const FOUR: Sample[][] = [
  [
    [0.5, 4],
    [1, 6],
    [0.75, 3],
    [0, 3],
  ],
];
const FOUR_ADVANTAGES = [-0.2, 1.4, 0.6, -1.8];
const FOUR_WEIGHTS = [1, 0.666667, 1.333333, 1.333333];
const pair: Sample[][] = [
  [
    [0.5, 4],
    [1, 6],
  ],
];
const withMiddle: Sample[][] = [
  [
    [0, 2],
    [0.5, 2],
    [1, 2],
  ],
];
const VECTORS: [string, ReturnType<typeof creditOf>, number[], number[]][] = [
  ['a pair', creditOf(pair), [-1, 1], [1.25, 0.833333]],
  ['four', creditOf(FOUR), FOUR_ADVANTAGES, FOUR_WEIGHTS],
  ['four, unscaled', creditOf(FOUR, 'none'), FOUR_ADVANTAGES, FOUR_WEIGHTS],
  ['two groups', creditOf(TWO_GROUPS), [-1.000009, 1.000009, -0.999991, 0.999991], TWO_GROUP_WEIGHTS],
  ['two groups, unscaled', creditOf(TWO_GROUPS, 'none'), [-1.818182, 1.818182, -0.181818, 0.181818], TWO_GROUP_WEIGHTS],
  ['balance .5', creditOf(TWO_GROUPS, 'std', 0.5), [-0.666673, 1.333345, -0.666661, 1.333321], TWO_GROUP_WEIGHTS],
  ['balance -1', creditOf(TWO_GROUPS, 'std', -1), [-2.000018, 0, -1.999982, 0], TWO_GROUP_WEIGHTS],
  ['balance 1', creditOf(TWO_GROUPS, 'std', 1), [0, 2.000018, 0, 1.999982], TWO_GROUP_WEIGHTS],
  ['a middle reward is dropped', creditOf(withMiddle), [-1, 1], [1, 1]],
];

describe('advantages and weights against ART', () => {
  let largest = 0;
  it.each(VECTORS)('%s', (_name, credit, advantages, weights) => {
    expect(credit).toHaveLength(advantages.length);
    credit!.forEach(({ advantage, weight }, i) => {
      largest = Math.max(largest, Math.abs(advantage - advantages[i]!), Math.abs(weight - weights[i]!));
    });
    expect(largest).toBeLessThan(2e-6);
  });
  it('reports the largest difference', () => {
    console.log(`${VECTORS.length} vectors, largest difference ${largest.toExponential(2)}`);
    expect(largest).toBeGreaterThan(0);
  });
});

describe('groupAdvantages', () => {
  it.each([[[]], [[3]], [[0.75, 0.75, 0.75, 0.75]], [[0.1, 0.1, 0.1]], [[1e300, 1e300]]])(
    'of %j: nothing to learn',
    (rewards) => {
      expect(groupAdvantages(rewards, 'std')).toBeNull();
      expect(groupAdvantages(rewards, 'none')).toBeNull();
    },
  );

  it('stays finite for extreme rewards, or throws', () => {
    expect(groupAdvantages([1e300, 0], 'std')).toEqual([1, -1]);
    expect(groupAdvantages([1.7e308, -1.7e308], 'std')).toEqual([1, -1]);
    expect(groupAdvantages([1e-300, 0], 'std')!.every(Number.isFinite)).toBe(true);
    expect(() => groupAdvantages([1.7e308, -1.7e308, -1.7e308], 'none')).toThrow(/too far apart/);
  });
});

describe('normalizeCredit', () => {
  const jobs = fc.array(
    fc.record({
      advantage: fc.oneof(
        fc.double({ min: -10, max: 10, noNaN: true }).filter((value) => Math.abs(value) > 1e-9),
        fc.constantFrom(1e300, -1e300, 1e-300, -1e-300),
      ),
      numTokens: fc.integer({ min: 1, max: 500 }),
    }),
    { minLength: 1, maxLength: 20 },
  );

  it('makes the mean weight and the mean of |advantage| · weight one', () => {
    fc.assert(
      fc.property(jobs, fc.double({ min: -1, max: 1, noNaN: true }), (job, balance) => {
        const inputs = job.map((input) => ({ ...input, numTrajectoryTokens: input.numTokens }));
        const credit = normalizeCredit(inputs, balance);
        // Only a balance of ±1 can remove everything, if all advantages have the other sign.
        const isRemoved = inputs.every(({ advantage }) => advantage * balance < 0 && Math.abs(balance) === 1);
        expect(credit === null).toBe(isRemoved);
        if (credit === null) return;
        const numTokens = inputs.reduce((total, input) => total + input.numTokens, 0);
        const mean = (of: (i: number) => number): number =>
          inputs.reduce((total, input, i) => total + (of(i) * input.numTokens) / numTokens, 0);
        expect(mean((i) => credit[i]!.weight)).toBeCloseTo(1, 9);
        expect(mean((i) => Math.abs(credit[i]!.advantage) * credit[i]!.weight)).toBeCloseTo(1, 9);
      }),
    );
  });

  it('finds nothing to train when the balance removes all there is', () => {
    expect(normalizeCredit([{ advantage: -1, numTokens: 5, numTrajectoryTokens: 5 }], 1)).toBeNull();
    expect(normalizeCredit([{ advantage: 2, numTokens: 5, numTrajectoryTokens: 5 }], -1)).toBeNull();
    expect(normalizeCredit([], 0)).toBeNull();
  });

  it('gives trajectories of several histories the same total weight as others', () => {
    const credit = normalizeCredit(
      [
        { advantage: 1, numTokens: 3, numTrajectoryTokens: 10 },
        { advantage: 1, numTokens: 7, numTrajectoryTokens: 10 },
        { advantage: -1, numTokens: 2, numTrajectoryTokens: 2 },
      ],
      0,
    )!;
    expect(3 * credit[0]!.weight + 7 * credit[1]!.weight).toBeCloseTo(2 * credit[2]!.weight, 5);
  });
});

describe('moments', () => {
  it('are the mean and the population σ', () => {
    expect(moments([1, 2, 3, 4])).toEqual({ mean: 2.5, standardDeviation: Math.sqrt(1.25) });
    expect(moments([])).toEqual({ mean: 0, standardDeviation: 0 });
  });
});
