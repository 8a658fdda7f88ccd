import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import type { LossConfig } from './loss-config.ts';
import type { LossInput } from './loss-input.ts';
import { policyLoss } from './policy-loss.ts';
import { plainLoss } from '../testing/plain-loss.ts';

// Two histories: a with three tokens, b with two; the last token has no log-probability. The expected numbers
// come from ART's own loss code (PyTorch, float64), printed to six digits.
const ROW: LossInput = {
  newLogprobs: Float64Array.of(-0.3, -2, -0.15, -1, -0.7),
  sampledLogprobs: Float64Array.of(-0.5, -1.2, -0.1, -2, NaN),
  precalculatedLogprobs: null,
  refLogprobs: Float64Array.of(-0.4, -1.5, -0.2, -1.1, -0.9),
  entropies: Float64Array.of(1, 2, 0.5, 1.5, 1),
  advantages: Float64Array.of(1.5, 1.5, 1.5, -0.8, -0.8),
  weights: Float64Array.of(0.8, 0.8, 0.8, 1.3, 1.3),
  histories: Int32Array.of(0, 0, 0, 1, 1),
};
const PRECALCULATED = Float64Array.of(-0.45, -1.6, -0.12, -1.3, -0.8);

type Vector = [name: string, config: TrainingConfigInput, loss: number, gradient: number[], precalculated?: true];
const cap = { maxNegativeAdvantageImportanceSamplingWeight: 1 };
const VECTORS: Vector[] = [
  ['default cispo', {}, -0.373139, [-0.293137, -0.107839, -0.228295, 0.565403, 0.208]],
  [
    'cispo, epsilon .2',
    { epsilon: 0.2, epsilonHigh: null },
    -0.204817,
    [-0.293137, -0.192, -0.228295, 0.565403, 0.208],
  ],
  [
    'cispo, epsilon .2, high .28',
    { epsilon: 0.2, epsilonHigh: 0.28 },
    0.094345,
    [-0.293137, -0.192, -0.228295, 0.26624, 0.208],
  ],
  [
    'cispo, epsilon .2, high .2',
    { epsilon: 0.2, epsilonHigh: 0.2 },
    0.109444,
    [-0.288, -0.192, -0.228295, 0.2496, 0.208],
  ],
  ['ppo', { ppo: true }, 0.149269, [0, -0.107839, -0.228295, 0.565403, 0.208]],
  ['ppo by loss_fn', { ppo: false, lossFn: 'ppo' }, 0.149269, [0, -0.107839, -0.228295, 0.565403, 0.208]],
  [
    'ppo, epsilon .1, high .3',
    { ppo: true, epsilon: 0.1, epsilonHigh: 0.3 },
    0.144132,
    [-0.293137, -0.107839, -0.228295, 0.565403, 0.208],
  ],
  [
    'sequence',
    { importanceSamplingLevel: 'sequence' },
    -0.109531,
    [-0.193248, -0.193248, -0.193248, 0.342934, 0.342934],
  ],
  [
    'sequence, ppo',
    { importanceSamplingLevel: 'sequence', ppo: true },
    0.106125,
    [-0.193248, -0.193248, -0.193248, 0.342934, 0.342934],
  ],
  ['average', { importanceSamplingLevel: 'average' }, -0.241335, [-0.243192, -0.150543, -0.210771, 0.454168, 0.275467]],
  [
    'average, ppo, epsilon .5',
    { importanceSamplingLevel: 'average', ppo: true, epsilon: 0.5 },
    0.125129,
    [-0.243192, -0.150543, -0.210771, 0.454168, 0.275467],
  ],
  [
    'geometric average',
    { importanceSamplingLevel: 'geometric_average' },
    -0.235663,
    [-0.238008, -0.144359, -0.210042, 0.440336, 0.267077],
  ],
  [
    'geometric average, ppo, epsilon .5',
    { importanceSamplingLevel: 'geometric_average', ppo: true, epsilon: 0.5 },
    0.115004,
    [-0.217739, -0.170915, -0.203756, 0.397021, 0.310392],
  ],
  ['cap 1', cap, -0.031678, [-0.24, -0.107839, -0.228295, 0.208, 0.208]],
  // The fifth token is exactly at the cap, where subgradients are ambiguous: NaN means not compared.
  ['cap 1, ppo', { ...cap, ppo: true }, -0.160134, [0, -0.107839, -0.228295, 0, NaN]],
  [
    'mask, epsilon .3, high .3',
    { maskProbRatio: true, epsilon: 0.3, epsilonHigh: 0.3 },
    0.166985,
    [-0.293137, -0.168, -0.228295, 0.1456, 0.208],
  ],
  [
    'mask, ppo, epsilon .3',
    { maskProbRatio: true, ppo: true, epsilon: 0.3 },
    -0.167832,
    [-0.293137, 0, -0.228295, 0, 0.208],
  ],
  ['mask', { maskProbRatio: true }, -0.373139, [-0.293137, -0.107839, -0.228295, 0.565403, 0.208]],
  ['tau .1', { kimiK2Tau: 0.1 }, -0.43337, [-0.289228, -0.11359, -0.229056, 0.636078, 0.208]],
  ['tau .1, ppo', { kimiK2Tau: 0.1, ppo: true }, 0.217271, [0, -0.11359, -0.229056, 0.636078, 0.208]],
  ['kl .1', { klPenaltyCoef: 0.1 }, -0.378472, [-0.290987, -0.111362, -0.227382, 0.573177, 0.21346]],
  // Without recomputed log-probabilities the ratio is already that to the sampler: as in the first line, and in
  // ART from 0.5.23 on.
  [
    'truncated 1.1',
    { truncatedImportanceSampling: 1.1 },
    -0.373139,
    [-0.293137, -0.107839, -0.228295, 0.565403, 0.208],
  ],
  [
    'precalculated',
    { precalculateLogprobs: true },
    -0.001342,
    [-0.27884, -0.160877, -0.232907, 0.280771, 0.229876],
    true,
  ],
  [
    'precalculated, truncated 1.1',
    { precalculateLogprobs: true, truncatedImportanceSampling: 1.1 },
    -0.116585,
    [-0.293137, -0.107839, -0.228295, 0.308848, 0.208],
    true,
  ],
];

// Six printed digits, so half a unit of the last place, plus the 1e-6 added to the token count.
const TOLERANCE = 2e-6;

describe('policyLoss against ART', () => {
  let largest = 0;
  it.each(VECTORS)('%s', (_name, config, expectedLoss, expectedGradient, precalculated) => {
    const { loss, gradient } = policyLoss(
      { ...ROW, precalculatedLogprobs: precalculated ? PRECALCULATED : null },
      resolveTrainingConfig(config),
    );
    const differences = [loss - expectedLoss, ...expectedGradient.map((value, i) => gradient[i]! - value)].map(
      Math.abs,
    );
    const difference = Math.max(...differences.filter((value) => !Number.isNaN(value)));
    largest = Math.max(largest, difference);
    expect(difference).toBeLessThan(TOLERANCE);
  });
  it('reports the largest difference', () => {
    console.log(`${VECTORS.length} vectors, largest difference ${largest.toExponential(2)}`);
    expect(largest).toBeGreaterThan(0);
  });
});

/** Central differences, and true if no kink (clip, cap, mask) is too near for a derivative. */
function numericGradient(row: LossInput, config: LossConfig): { gradient: number[]; isSmooth: boolean } {
  const still = [...row.newLogprobs];
  const slope = (i: number, from: number, to: number): number => {
    const at = (step: number): number =>
      plainLoss(
        still.map((logprob, j) => (i === j ? logprob + step : logprob)),
        still,
        row,
        config,
      );
    return (at(to) - at(from)) / (to - from);
  };
  const step = 1e-5;
  const gradient = still.map((_, i) => slope(i, -step, step));
  const size = Math.max(1, ...gradient.map(Math.abs));
  // Curvature makes the one-sided slopes differ by an amount that shrinks with the step; a kink's does not.
  const jump = (i: number, width: number): number => Math.abs(slope(i, 0, width) - slope(i, -width, 0));
  // A kink just inside the step shows only in the wider ones.
  const isSmoothAt = (i: number): boolean => {
    const wide = jump(i, 10 * step);
    return jump(i, step) <= 0.12 * wide + 1e-8 * size && jump(i, 2 * step) <= 0.25 * wide + 1e-8 * size;
  };
  return { gradient, isSmooth: still.every((_, i) => isSmoothAt(i)) };
}

describe('loss and gradient against a plain twin and its finite differences', () => {
  let largest = 0;
  it.each(VECTORS)('%s', (name, input, _loss, expectedGradient, precalculated) => {
    const config = resolveTrainingConfig(input);
    const row = { ...ROW, precalculatedLogprobs: precalculated ? PRECALCULATED : null };
    const { loss, gradient } = policyLoss(row, config);
    const numeric = numericGradient(row, config).gradient;
    expect(Math.abs(loss - plainLoss([...row.newLogprobs], [...row.newLogprobs], row, config))).toBeLessThan(1e-12);
    const differences = numeric.map((value, i) =>
      Number.isNaN(expectedGradient[i]) ? 0 : Math.abs(gradient[i]! - value),
    );
    console.log(`${name}: largest difference from finite differences ${Math.max(...differences).toExponential(2)}`);
    expect(Math.max(...differences)).toBeLessThan(1e-8);
  });

  it('any row, any settings', () => {
    const logprob = fc.double({ min: -6, max: 0, noNaN: true });
    const token = fc.record({
      new: logprob,
      sampled: fc.option(logprob, { nil: NaN }),
      precalculated: logprob,
      reference: logprob,
      advantage: fc.double({ min: -3, max: 3, noNaN: true }),
      weight: fc.double({ min: 0.1, max: 3, noNaN: true }),
      history: fc.integer({ min: 0, max: 2 }),
    });
    const settings = fc.record({
      lossFn: fc.constantFrom('ppo' as const, 'cispo' as const),
      epsilon: fc.constantFrom(null, 0.1, 0.5, 1),
      epsilonHigh: fc.constantFrom(null, 0, 0.3, 2),
      importanceSamplingLevel: fc.constantFrom(
        'token' as const,
        'sequence' as const,
        'average' as const,
        'geometric_average' as const,
      ),
      maxNegativeAdvantageImportanceSamplingWeight: fc.constantFrom(0, 0.4, 1.5),
      maskProbRatio: fc.boolean(),
      kimiK2Tau: fc.constantFrom(0, 0.2),
      truncatedImportanceSampling: fc.constantFrom(0, 1.3),
      klPenaltyCoef: fc.constantFrom(0, 0.3),
      klPenaltySource: fc.constantFrom('current_learner' as const, 'sample' as const),
      precalculateLogprobs: fc.boolean(),
    });
    let numSmooth = 0;
    fc.assert(
      fc.property(fc.array(token, { minLength: 1, maxLength: 8 }), settings, (tokens, input) => {
        const config = resolveTrainingConfig(input);
        const column = (of: (token: (typeof tokens)[number]) => number): Float64Array => Float64Array.from(tokens, of);
        const row: LossInput = {
          newLogprobs: column((drawn) => drawn.new),
          sampledLogprobs: column((drawn) => drawn.sampled),
          precalculatedLogprobs: config.precalculateLogprobs ? column((drawn) => drawn.precalculated) : null,
          refLogprobs: column((drawn) => drawn.reference),
          entropies: new Float64Array(tokens.length),
          advantages: column((drawn) => drawn.advantage),
          weights: column((drawn) => drawn.weight),
          histories: Int32Array.from(tokens, (drawn) => drawn.history),
        };
        const { loss, gradient } = policyLoss(row, config);
        const twin = plainLoss([...row.newLogprobs], [...row.newLogprobs], row, config);
        expect(Math.abs(loss - twin)).toBeLessThan(1e-9 * Math.max(1, Math.abs(twin)));
        const { gradient: numeric, isSmooth } = numericGradient(row, config);
        if (!isSmooth) return;
        numSmooth++;
        const size = Math.max(1, ...numeric.map(Math.abs));
        largest = Math.max(largest, ...numeric.map((value, i) => Math.abs(gradient[i]! - value) / size));
        // Truncation of central differences at 1e-5 with curvatures up to e^6.
        expect(largest).toBeLessThan(1e-6);
      }),
      { numRuns: 2000 },
    );
    console.log(`${numSmooth} of 2000 random rows smooth, largest relative difference ${largest.toExponential(2)}`);
    expect(numSmooth).toBeGreaterThan(1000);
  });
});

describe('a log ratio beyond 20', () => {
  const far = (sampled: number): LossInput => ({
    ...ROW,
    newLogprobs: Float64Array.of(-1, -2),
    sampledLogprobs: Float64Array.of(sampled, -2),
    refLogprobs: null,
    entropies: Float64Array.of(1, 1),
    advantages: Float64Array.of(-1, -1),
    weights: Float64Array.of(1, 1),
    histories: Int32Array.of(0, 1),
  });
  it.each(['token', 'sequence', 'average', 'geometric_average'] as const)(
    'counts as 20, without a slope (%s)',
    (level) => {
      const config = resolveTrainingConfig({ ppo: true, importanceSamplingLevel: level });
      const absurd = policyLoss(far(-900), config);
      expect(absurd.loss).toBe(policyLoss(far(-21.5), config).loss);
      expect(absurd.loss).toBeCloseTo((Math.exp(20) + 1) / 2, -3);
      expect(absurd.gradient[0]).toBe(0);
      expect(policyLoss(far(-20.9), config).gradient[0]).toBeGreaterThan(1e6);
    },
  );
});

describe('the entropy bonus', () => {
  it('is the mean of weight · H, taken off the loss, with its gradient; the policy loss is reported without it', () => {
    const plain = policyLoss(ROW, resolveTrainingConfig({}));
    const { loss, gradient, entropyGradient, metrics } = policyLoss(ROW, resolveTrainingConfig({ entropyCoef: 0.1 }));
    // 0.8 · (1 + 2 + 0.5) + 1.3 · (1.5 + 1) = 6.05, over five tokens
    expect(plain.loss - loss).toBeCloseTo(0.1 * (6.05 / 5), 6);
    expect(Array.from(entropyGradient!, (value) => Number(value.toFixed(6)))).toEqual([
      -0.016, -0.016, -0.016, -0.026, -0.026,
    ]);
    expect(gradient).toEqual(plain.gradient);
    expect(metrics).toEqual(plain.metrics);
    expect(plain.entropyGradient).toBe(null);
  });
});

describe('metrics', () => {
  it('agree with sums by hand', () => {
    const { metrics } = policyLoss(ROW, resolveTrainingConfig({}));
    const logRatios = [0.2, -0.8, -0.05, 1];
    const k3 = logRatios.map((d) => Math.exp(d) - 1 - d);
    const ratios = [...logRatios.map(Math.exp), 1];
    const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
    expect(metrics['kl_sampler']).toBeCloseTo(sum(k3) / 4, 12);
    expect(metrics['kl_sampler_k1']).toBeCloseTo(-0.35 / 4, 12);
    expect(metrics['ratio_mean']).toBeCloseTo(sum(ratios) / 5, 12);
    expect(metrics['ratio_max']).toBeCloseTo(Math.E, 12);
    expect(metrics['logprob_gap_mean']).toBeCloseTo(2.05 / 4, 12);
    expect(metrics['logprob_gap_max']).toBeCloseTo(1, 12);
    expect(metrics['logprob_gap_p99']).toBeCloseTo(1, 12);
    expect(metrics['entropy']).toBeCloseTo((0.8 * 3.5 + 1.3 * 2.5) / 5, 12);
    expect(metrics['clip_fraction']).toBe(0);
    const squares = sum(ratios.map((ratio) => ratio ** 2));
    expect(metrics['effective_sample_size']).toBeCloseTo(sum(ratios) ** 2 / squares, 12);
    const toReference = [0.1, -0.5, 0.05, 0.1, 0.2]; // new - reference
    const k3OfReference = toReference.map((gap) => Math.exp(-gap) - 1 + gap);
    expect(metrics['kl_policy_ref_k3']).toBeCloseTo(sum(k3OfReference) / 5, 12);
    expect(metrics['kl_policy_ref']).toBeCloseTo(-0.01, 12);
    // sampled - reference, and new - reference if nothing was sampled: as ART reports it with that source
    const ofSample = policyLoss(ROW, resolveTrainingConfig({ klPenaltyCoef: 0.1, klPenaltySource: 'sample' })).metrics;
    expect(ofSample['kl_policy_ref']).toBeCloseTo((-0.1 + 0.3 + 0.1 - 0.9 + 0.2) / 5, 12);
    expect(ofSample['kl_policy_ref_k3']).toBe(metrics['kl_policy_ref_k3']);
    expect(metrics['advantage_mean']).toBeCloseTo((0.8 * 4.5 - 1.3 * 1.6) / 5, 12);
    // computed separately in Python: Pearson of exp([-.5, -1.2, -.1, -2]) and exp([-.3, -2, -.15, -1])
    expect(metrics['probs_corr']).toBeCloseTo(0.8603873723341433, 12);
    const ppo = policyLoss(ROW, resolveTrainingConfig({ ppo: true })).metrics;
    expect([ppo['clip_fraction'], ppo['clip_fraction_low'], ppo['clip_fraction_high']]).toEqual([0.2, 0, 0.2]);
    // Ratios e^.2, e^-.8, e^-.05, e, 1 against [.8, 1.2]: one below, two above.
    const cispo = policyLoss(ROW, resolveTrainingConfig({ epsilon: 0.2, epsilonHigh: 0.2 })).metrics;
    expect([cispo['clip_fraction_low'], cispo['clip_fraction_high']]).toEqual([0.2, 0.4]);
  });

  it('leave undefined values out, and stay finite for an absurd ratio', () => {
    const one = policyLoss(
      {
        ...ROW,
        newLogprobs: Float64Array.of(-0.1),
        sampledLogprobs: Float64Array.of(-900),
        refLogprobs: null,
        histories: Int32Array.of(0),
      },
      resolveTrainingConfig({}),
    );
    expect(one.metrics).not.toHaveProperty('probs_corr');
    expect(Object.values(one.metrics).every(Number.isFinite)).toBe(true);
    expect(Number.isFinite(one.loss)).toBe(true);
    const silent = policyLoss({ ...ROW, sampledLogprobs: new Float64Array(5).fill(NaN) }, resolveTrainingConfig({}));
    expect(silent.metrics).not.toHaveProperty('kl_sampler');
    expect(silent.metrics['ratio_mean']).toBe(1);
  });
});
