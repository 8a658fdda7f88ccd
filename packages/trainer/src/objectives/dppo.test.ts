import fc from 'fast-check';
import { expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import type { LossConfig } from './loss-config.ts';
import type { LossInput } from './loss-input.ts';
import { policyLoss } from './policy-loss.ts';

interface Token {
  readonly now: number;
  readonly before: number;
  readonly advantage: number;
  readonly weight: number;
}

const settings = (input: TrainingConfigInput = {}) => resolveTrainingConfig({ lossFn: 'dppo', ...input });

function rowOf(tokens: readonly Token[]): LossInput {
  const column = (of: (token: Token) => number) => Float64Array.from(tokens, of);
  return {
    newLogprobs: column(({ now }) => Math.log(now)),
    sampledLogprobs: column(({ before }) => Math.log(before)),
    precalculatedLogprobs: null,
    refLogprobs: null,
    entropies: null,
    advantages: column(({ advantage }) => advantage),
    weights: column(({ weight }) => weight),
    histories: new Int32Array(tokens.length),
  };
}

/**
 * Reference by definition: mean of weight · −(π/μ) · A over tokens that did not move too far in the direction of
 * their advantage, which `still` decides.
 */
function plainDppo(
  logprobs: readonly number[],
  still: readonly number[],
  tokens: readonly Token[],
  { epsilon, epsilonHigh }: Pick<LossConfig, 'epsilon' | 'epsilonHigh'>,
): number {
  const losses = tokens.map(({ before, advantage, weight }, i) => {
    const moved = Math.exp(still[i]!) - before;
    const isLeftOut = advantage === 0 || (advantage > 0 ? moved > epsilonHigh : moved < -epsilon);
    return isLeftOut ? 0 : (-weight * Math.exp(logprobs[i]!) * advantage) / before;
  });
  return losses.reduce((sum, loss) => sum + loss, 0) / (tokens.length + 1e-6);
}

function slopes(tokens: readonly Token[], config: LossConfig): number[] {
  const still = tokens.map(({ now }) => Math.log(now));
  const step = 1e-5;
  return still.map((_, i) => {
    const at = (shift: number) =>
      plainDppo(
        still.map((logprob, j) => (i === j ? logprob + shift : logprob)),
        still,
        tokens,
        config,
      );
    return (at(step) - at(-step)) / (2 * step);
  });
}

it('leaves out only tokens that moved too far in the direction of their advantage', () => {
  const tokens: Token[] = [
    { now: 0.9, before: 0.6, advantage: 1, weight: 1 },
    { now: 0.3, before: 0.6, advantage: 1, weight: 1 },
    { now: 0.3, before: 0.6, advantage: -1, weight: 1 },
    { now: 0.9, before: 0.6, advantage: -1, weight: 1 },
    // Twenty times as likely, and still rare: a clip of ratios would stop it.
    { now: 0.02, before: 0.001, advantage: 1, weight: 1 },
    { now: 0.5, before: 0.5, advantage: 0, weight: 1 },
  ];
  const { gradient, metrics } = policyLoss(rowOf(tokens), settings());
  const ratios = [0, 0.5, 0, -1.5, 20, 0];
  gradient.forEach((slope, i) => expect(slope).toBeCloseTo(-ratios[i]! / 6, 5));
  expect([metrics['clip_fraction_high'], metrics['clip_fraction_low']]).toEqual([1 / 6, 1 / 6]);
  const wide = policyLoss(rowOf(tokens), settings({ epsilon: 0.2, epsilonHigh: 0.35 }));
  expect(wide.gradient[0]).toBeCloseTo(-1.5 / 6, 5);
  expect(wide.gradient[2]).toBe(0);
});

it('a token without a sampled log-probability has ratio 1 and is never left out', () => {
  const row = { ...rowOf([{ now: 0.9, before: 0.1, advantage: 1, weight: 1 }]), sampledLogprobs: Float64Array.of(NaN) };
  const { gradient, metrics } = policyLoss(row, settings());
  expect(gradient[0]).toBeCloseTo(-1, 5);
  expect(metrics['clip_fraction']).toBe(0);
});

it('has the value of a plain second version and the gradient of its finite differences', () => {
  const probability = fc.double({ min: 0.002, max: 0.998, noNaN: true });
  const token = fc.record({
    now: probability,
    before: probability,
    advantage: fc.double({ min: -2, max: 2, noNaN: true }),
    weight: fc.double({ min: 0.1, max: 3, noNaN: true }),
  });
  const bound = fc.constantFrom(0, 0.05, 0.2, 0.5);
  let [largest, numLeftOut, numTokens] = [0, 0, 0];
  fc.assert(
    fc.property(fc.array(token, { minLength: 1, maxLength: 8 }), bound, bound, (tokens, epsilon, epsilonHigh) => {
      const config = settings({ epsilon, epsilonHigh });
      const { loss, gradient, metrics } = policyLoss(rowOf(tokens), config);
      const still = tokens.map(({ now }) => Math.log(now));
      const value = plainDppo(still, still, tokens, config);
      expect(Math.abs(loss - value)).toBeLessThan(1e-9 * Math.max(1, Math.abs(value)));
      const numeric = slopes(tokens, config);
      const size = Math.max(1, ...numeric.map(Math.abs));
      largest = Math.max(largest, ...numeric.map((slope, i) => Math.abs(gradient[i]! - slope) / size));
      expect(largest).toBeLessThan(1e-7);
      numLeftOut += metrics['clip_fraction']! * tokens.length;
      numTokens += tokens.length;
    }),
    { numRuns: 1000, seed: 4 },
  );
  console.log(`largest relative difference ${largest.toExponential(1)}; ${numLeftOut} of ${numTokens} tokens left out`);
  expect(numLeftOut).toBeGreaterThan(numTokens / 10);
});
