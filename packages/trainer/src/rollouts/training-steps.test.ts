import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type LossAggregation, type TrainingConfigInput } from '../config/training-config.ts';
import type { LossInput } from '../objectives/loss-input.ts';
import { rowLoss } from '../objectives/policy-loss.ts';
import { answer, byteTemplate, group } from '../testing/chat-groups.ts';
import { plainTokenLosses } from '../testing/plain-loss.ts';
import { trainingSequences } from './training-sequences.ts';
import { numStepsFor, trainingSteps, type StepSequence, type TrainingStep } from './training-steps.ts';
import type { TrajectoryGroup } from './trajectory.ts';

function sequence(groupIndex: number, trajectoryIndex: number, numTokens: number): StepSequence {
  const length = numTokens + 2;
  return {
    groupIndex,
    trajectoryIndex,
    sequenceIndex: 0,
    tokenIds: Int32Array.from({ length }, (_, i) => 100 * groupIndex + 10 * trajectoryIndex + i),
    lossMask: Uint8Array.from({ length }, (_, i) => Number(i >= 2)),
    oldLogprobs: new Float32Array(length).fill(-1),
    advantage: trajectoryIndex % 2 === 0 ? 1 : -1,
    weight: 1,
    numTokens,
    numTrajectoryTokens: numTokens,
    isRewarded: true,
  };
}

const sizesOf = (sequences: readonly StepSequence[]) =>
  new Map(
    [...Map.groupBy(sequences, ({ groupIndex }) => groupIndex)].map(([index, members]) => [
      index,
      {
        numTrajectories: new Set(members.map(({ trajectoryIndex }) => trajectoryIndex)).size,
        numTokens: members.reduce((total, { numTokens }) => total + numTokens, 0),
      },
    ]),
  );

/** Groups by their token ids. */
const groupsOf = (step: TrainingStep): Set<number> =>
  new Set(step.rows.flatMap(({ row }) => [...row.targets].map((id) => Math.floor(id / 100))));

describe('trainingSteps', () => {
  it.each([
    [{ numGroups: 8, numTrajectories: 64 }, null, 4],
    [{ numGroups: 16, numTrajectories: 256 }, null, 4],
    [{ numGroups: 4, numTrajectories: 32 }, null, 2],
    [{ numGroups: 2, numTrajectories: 8 }, null, 1],
    [{ numGroups: 1, numTrajectories: 64 }, null, 1],
    [{ numGroups: 0, numTrajectories: 0 }, null, 0],
    [{ numGroups: 16, numTrajectories: 256 }, 7, 7],
    [{ numGroups: 3, numTrajectories: 256 }, 7, 3],
  ])('%o with gradient_steps %s makes %d steps', (size, gradientSteps, expected) => {
    expect(numStepsFor({ gradientSteps }, size)).toBe(expected);
  });

  it('deals every group whole to one step, of about as many trajectories each, however it is packed', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 5 }), { maxLength: 12 }),
        fc.option(fc.integer({ min: 1, max: 6 })),
        fc.integer({ min: 8, max: 40 }),
        fc.nat(),
        (groups, gradientSteps, maxTokens, seed) => {
          const sequences = groups.flatMap((lengths, g) => lengths.map((length, i) => sequence(g, i, length)));
          const config = resolveTrainingConfig({ gradientSteps });
          const parts = { groupSizes: sizesOf(sequences), maxTokens, config, seed };
          const steps = trainingSteps(sequences, parts);
          expect(trainingSteps(sequences, parts)).toEqual(steps);
          expect(steps.flatMap((step) => [...groupsOf(step)]).toSorted((a, b) => a - b)).toEqual([...groups.keys()]);
          const numTokens = sequences.reduce((total, one) => total + one.numTokens, 0);
          expect(steps.reduce((total, step) => total + step.numTokens, 0)).toBe(numTokens);
          const counts = steps.map((step) => step.numTrajectories);
          const largestGroup = Math.max(0, ...groups.map(({ length }) => length));
          if (steps.length > 0) expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(largestGroup);
          for (const { rows, numTokens: ofStep } of steps) {
            const weights = rows.flatMap((row) => [...row.weights]);
            expect(weights.reduce((total, weight) => total + weight, 0) / ofStep).toBeCloseTo(1, 9);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** Losses of a step by the papers' formulas. */
const PAPERS: Record<
  Exclude<LossAggregation, 'normalized_trajectory'>,
  (losses: number[][], length: number) => number
> = {
  trajectory: (losses) => mean(losses.map(mean)),
  token: (losses) => mean(losses.flat()),
  constant: (losses, length) => mean(losses.map((tokens) => tokens.reduce((a, b) => a + b, 0) / length)),
};
function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

describe('the aggregated loss', () => {
  // The middle one of three has no advantage and is not trained, but was sampled. Lengths differ.
  const groups: TrajectoryGroup[] = [
    group(answer(1, 'yes, of course', 'one'), answer(0, 'no', 'one'), answer(0.5, 'perhaps, perhaps', 'one')),
    group(answer(0, 'never ever', 'two'), answer(2, 'so', 'two')),
    group(answer(0.1, 'equal', 'three'), answer(0.1, 'rewards', 'three')),
  ];
  const rewards = [[1, 0, 0.5], [0, 2], []];

  for (const name of ['trajectory', 'token', 'constant'] as const)
    it.each([1, 2])(`is that of the papers, with its gradient: ${name}, %d steps`, async (gradientSteps) => {
      const config = resolveTrainingConfig({
        lossAggregation: name,
        ...(name === 'constant' ? { lossAggregationLength: 20 } : {}),
        gradientSteps,
        ppo: true,
        epsilon: 0.3,
        packedSequenceLength: 60,
      });
      const signal = new AbortController().signal;
      const prepared = await trainingSequences(groups, { template: byteTemplate, config, signal });
      const steps = trainingSteps(prepared.sequences, { ...prepared, config, seed: 1 });
      expect(steps).toHaveLength(gradientSteps);
      let largest = 0;
      for (const step of steps) {
        const inputs = step.rows.map((row, r): LossInput => {
          const numTokens = row.row.targets.length;
          const column = (of: (i: number) => number): Float64Array =>
            Float64Array.from({ length: numTokens }, (_, i) => of(i));
          return {
            newLogprobs: column((i) => -1 + 0.4 * Math.sin(7 * i + r)),
            sampledLogprobs: row.sampledLogprobs,
            precalculatedLogprobs: null,
            refLogprobs: null,
            entropies: new Float64Array(numTokens),
            advantages: row.advantages,
            weights: row.weights,
            histories: row.histories,
          };
        });
        // Sampled trajectories of the step's groups without an advantage: losses of 0 for as many tokens.
        const silent = (['one', 'two'] as const).flatMap((question, index) => {
          const isHere = step.rows.some(({ advantages }) => [...advantages].some((a) => isOfGroup(a, rewards[index]!)));
          return isHere && question === 'one' ? [Array.from('perhaps, perhaps ', () => 0)] : [];
        });
        const paper = (live: readonly number[][]): number => {
          const losses = inputs.flatMap((input, r) => {
            const ofTokens = plainTokenLosses(live[r]!, [...input.newLogprobs], input, config);
            const byHistory = Map.groupBy(ofTokens.keys(), (i) => input.histories[i]!);
            return [...byHistory.values()].map((indices) => indices.map((i) => ofTokens[i]!));
          });
          return PAPERS[name]([...losses, ...silent], 20);
        };
        const logprobs = inputs.map(({ newLogprobs }) => [...newLogprobs]);
        const results = inputs.map((input) => rowLoss(input, config, { numTokens: step.numTokens, meanGap: null }));
        const loss = results.reduce((total, result) => total + result.loss, 0);
        // The divisor is N + 1e-6.
        expect(Math.abs(loss - paper(logprobs))).toBeLessThan(1e-6);
        for (const [r, { gradient }] of results.entries())
          for (const i of gradient.keys()) {
            const at = (change: number): number =>
              paper(
                logprobs.map((row, other) => row.map((value, j) => (other === r && j === i ? value + change : value))),
              );
            largest = Math.max(largest, Math.abs((at(1e-5) - at(-1e-5)) / 2e-5 - gradient[i]!));
          }
      }
      console.log(
        `${name}, ${gradientSteps} steps: largest difference from finite differences ${largest.toExponential(1)}`,
      );
      expect(largest).toBeLessThan(1e-7);
    });

  it('leaves advantages as they are in their groups, and scales them over the job by default', async () => {
    const advantages = async (lossAggregation: LossAggregation) => {
      const config = resolveTrainingConfig({ lossAggregation, scaleRewards: false });
      const signal = new AbortController().signal;
      const { sequences } = await trainingSequences(groups, { template: byteTemplate, config, signal });
      return sequences.map(({ advantage }) => advantage);
    };
    expect(await advantages('trajectory')).toEqual([0.5, -0.5, -1, 1]);
    expect(await advantages('token')).toEqual([0.5, -0.5, -1, 1]);
    const scaled = await advantages('normalized_trajectory');
    expect(scaled[2]! / scaled[0]!).toBeCloseTo(-2, 12);
    expect(scaled[2]).not.toBe(-1);
  });
});

/** The group has such rewards. */
function isOfGroup(advantage: number, rewards: readonly number[]): boolean {
  const centre = mean(rewards);
  const deviation = Math.sqrt(mean(rewards.map((reward) => (reward - centre) ** 2))) + 1e-6;
  return rewards.some((reward) => Math.abs((reward - centre) / deviation - advantage) < 1e-9);
}

describe('other terms than the rewards', () => {
  const learning = () => [
    group(answer(1, 'yes'), answer(0.5, 'perhaps'), answer(0, 'no, never')),
    group(answer(0, 'left'), answer(2, 'right')),
  ];
  const equal = () => group(answer(1, 'a long answer of equal reward'), answer(1, 'short'), answer(1, 'third'));

  /** Factors of rewarded tokens' losses, summed by trajectory; one record per step. */
  async function policyCoefficients(groups: readonly TrajectoryGroup[], input: TrainingConfigInput) {
    const config = resolveTrainingConfig(input);
    const { signal } = new AbortController();
    const { sequences, ...sizes } = await trainingSequences(groups, { template: byteTemplate, config, signal });
    return trainingSteps(sequences, { ...sizes, config, seed: 1 }).map(({ rows, numTokens }) => {
      const coefficients: Record<string, number> = {};
      for (const { row, weights, advantages, histories, members } of rows)
        row.targets.forEach((_, i) => {
          const { groupIndex, trajectoryIndex, advantage } = members[histories[i]!]!;
          expect(advantage).toBe(advantages[i]);
          const key = `${groupIndex} ${trajectoryIndex}`;
          coefficients[key] = (coefficients[key] ?? 0) + (weights[i]! * advantages[i]!) / numTokens;
        });
      return coefficients;
    });
  }

  const WAYS = [
    { lossAggregation: 'normalized_trajectory' },
    { lossAggregation: 'trajectory' },
    { lossAggregation: 'token' },
    { lossAggregation: 'constant', lossAggregationLength: 16 },
    { stepPerRow: true, lossAggregation: 'normalized_trajectory' },
  ] as const;
  const TERMS = [{ klPenaltyCoef: 0.1 }, { entropyCoef: 0.1 }, { kimiK2Tau: 0.1 }] as const;

  it.each(WAYS.flatMap((way) => TERMS.map((term) => [way, term] as const)))(
    'leave the policy term as it is without them: %o with %o',
    async (way, term) => {
      const [alone, ...noMore] = await policyCoefficients(learning(), way);
      const [beside, ...neither] = await policyCoefficients([...learning(), equal()], { ...way, ...term });
      expect([noMore, neither]).toEqual([[], []]);
      const trained = Object.entries(alone!).filter(([, coefficient]) => coefficient !== 0);
      expect(trained).toHaveLength(4);
      for (const [key, coefficient] of trained) expect(beside![key]! / coefficient).toBeCloseTo(1, 6);
      for (const key of ['0 1', '2 0', '2 1', '2 2']) expect(beside![key]).toBe(0);
    },
  );

  it.each(WAYS.slice(0, 4).flatMap((way) => [null, 3].map((gradientSteps) => ({ ...way, gradientSteps }))))(
    'leave it in the gradient steps that it has without them: %o',
    async (input) => {
      const alike = Array.from({ length: 12 }, equal);
      const unlike = Array.from({ length: 9 }, learning).flat();
      const groups = [...unlike, ...alike];
      const alone = await policyCoefficients(unlike, input);
      const beside = await policyCoefficients(groups, { ...input, entropyCoef: 0.01 });
      expect(beside).toHaveLength(3);
      expect(alone).toHaveLength(3);
      for (const [step, coefficients] of alone.entries()) {
        for (const [key, coefficient] of Object.entries(coefficients))
          expect(beside[step]![key]! / (coefficient || 1)).toBeCloseTo(coefficient && 1, 6);
        expect(Object.keys(beside[step]!).length).toBeGreaterThan(Object.keys(coefficients).length);
      }
    },
  );

  it('leave the policy term of each row its own denominator when rows are the steps', async () => {
    const question = (index: number) => `question ${index}`;
    const differing = Array.from({ length: 8 }, (_, index) =>
      group(answer(1, 'yes', question(index)), answer(0, 'never ever', question(index))),
    );
    const mixed = differing.flatMap((one) => [one, equal()]);
    const [whole, ...none] = await policyCoefficients(differing, { stepPerRow: true });
    expect(none).toEqual([]);
    const rows = await policyCoefficients(mixed, { stepPerRow: true, packedSequenceLength: 100, klPenaltyCoef: 0.1 });
    expect(rows.length).toBeGreaterThan(3);
    const [lengthOfYes, lengthOfNever] = ['yes.'.length, 'never ever.'.length];
    let numCompared = 0;
    for (const row of rows) {
      const rewarded = Object.entries(row).filter(([, coefficient]) => coefficient !== 0);
      const numTokens = rewarded.reduce((sum, [key]) => sum + (key.endsWith(' 0') ? lengthOfYes : lengthOfNever), 0);
      for (const [key, coefficient] of rewarded) {
        const [groupIndex, trajectoryIndex] = key.split(' ').map(Number);
        const alone = whole![`${groupIndex! / 2} ${trajectoryIndex}`]!;
        expect(coefficient / ((alone * 8 * (lengthOfYes + lengthOfNever)) / numTokens)).toBeCloseTo(1, 6);
        numCompared++;
      }
    }
    expect(numCompared).toBe(16);
    expect(rows.some((row) => new Set(Object.values(row).map((value) => value === 0)).size === 2)).toBe(true);
  });

  it('are means over all that is trained', async () => {
    const weights = async (groups: readonly TrajectoryGroup[]) => {
      const config = resolveTrainingConfig({ klPenaltyCoef: 0.1, lossAggregation: 'normalized_trajectory' });
      const { signal } = new AbortController();
      const { sequences, ...sizes } = await trainingSequences(groups, { template: byteTemplate, config, signal });
      const [step] = trainingSteps(sequences, { ...sizes, config, seed: 1 });
      return (
        step!.rows.flatMap((row) => [...row.weights]).reduce((total, weight) => total + weight, 0) / step!.numTokens
      );
    };
    expect(await weights([...learning(), equal()])).toBeCloseTo(1, 9);
    expect(await weights([equal()])).toBeCloseTo(1, 9);
  });
});
