import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from './config.ts';
import { policyLoss, type LossInput } from './loss.ts';

// One row, two histories: a with three tokens, b with two; the last token came without a log-probability.
// The expected numbers were made with ART's own loss code (PyTorch, float64), printed to six digits.
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
  // The fifth token sits exactly at the cap, where a subgradient is a matter of taste: NaN means not compared.
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
  ['truncated 1.1', { truncatedImportanceSampling: 1.1 }, -0.541323, [-0.32245, -0.048455, -0.217161, 0.621943, 0.208]],
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

// Six printed digits, so half a unit of the last place, and room for the 1e-6 beside the token count.
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

describe('gradients against finite differences', () => {
  // What the loss treats as constant must be held still while a log-probability moves: the clipped ratio of cispo, tau's log ratio,
  // the KL gap, and the old log-probability of a token that came without one. ppo without those is smooth as it stands.
  const smooth = VECTORS.filter(
    ([, config]) =>
      (config.ppo || config.lossFn === 'ppo') &&
      !config.kimiK2Tau &&
      !config.maxNegativeAdvantageImportanceSamplingWeight,
  );
  const STEP = 1e-6;
  it.each(smooth)('%s', (name, input) => {
    const config = resolveTrainingConfig(input);
    const known = {
      ...ROW,
      sampledLogprobs: ROW.sampledLogprobs.map((logprob, i) => (Number.isNaN(logprob) ? ROW.newLogprobs[i]! : logprob)),
    };
    const { gradient } = policyLoss(known, config);
    const numeric = gradient.map((_, i) => {
      const at = (step: number): number =>
        policyLoss(
          { ...known, newLogprobs: ROW.newLogprobs.map((logprob, j) => (i === j ? logprob + step : logprob)) },
          config,
        ).loss;
      return (at(STEP) - at(-STEP)) / (2 * STEP);
    });
    const difference = Math.max(...gradient.map((value, i) => Math.abs(value - numeric[i]!)));
    console.log(`${name}: largest difference from finite differences ${difference.toExponential(2)}`);
    expect(difference).toBeLessThan(1e-8);
  });

  // cispo is the gradient of weight · clippedRatio · advantage · logprob with everything but the log-probability held still.
  const frozen = VECTORS.filter(([, config]) => !config.ppo && config.lossFn !== 'ppo');
  it.each(frozen)('%s (with what is constant held still)', (_name, input, _loss, _gradient, precalculated) => {
    const config = resolveTrainingConfig(input);
    const row = { ...ROW, precalculatedLogprobs: precalculated ? PRECALCULATED : null };
    const { loss, gradient } = policyLoss(row, config);
    const surrogate = gradient.reduce((sum, slope, i) => sum + slope * row.newLogprobs[i]!, 0);
    expect(Math.abs(loss - surrogate)).toBeLessThan(1e-14);
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
    expect(metrics['kl_policy_ref']).toBeCloseTo(-0.01, 12);
    // computed apart in Python: Pearson of exp([-.5, -1.2, -.1, -2]) and exp([-.3, -2, -.15, -1])
    expect(metrics['probs_corr']).toBeCloseTo(0.8603873723341433, 12);
    expect(policyLoss(ROW, resolveTrainingConfig({ ppo: true })).metrics['clip_fraction']).toBeCloseTo(1 / 5, 12);
  });

  it('leave out what is undefined, and stay finite for an absurd ratio', () => {
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
