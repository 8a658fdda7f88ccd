import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type LossAggregation } from '../config/training-config.ts';
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

/** Which group the tokens of a step are of, by their ids. */
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

/** The loss of a step by the papers' formulas, given the tokens' losses of each trajectory. */
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
  // The middle one of three has no advantage and is not trained, but was sampled. Lengths are not equal.
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
        // What was sampled of the step's groups and has no advantage: losses of 0 for as many tokens.
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

/** Whether an advantage is one of a group of such rewards. */
function isOfGroup(advantage: number, rewards: readonly number[]): boolean {
  const centre = mean(rewards);
  const deviation = Math.sqrt(mean(rewards.map((reward) => (reward - centre) ** 2))) + 1e-6;
  return rewards.some((reward) => Math.abs((reward - centre) / deviation - advantage) < 1e-9);
}
