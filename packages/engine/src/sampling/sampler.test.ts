import { NO_TRUNCATION } from '@trainyard/protocol/fields';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DrawKey, RandomStream } from './random.ts';
import { mostLikelyTokens, SamplerBuffers, sampleToken } from './sampler.ts';
import type { SamplingSettings } from './sampler.ts';
import { expNegative, NO_ADJUSTMENTS, type TokenAdjustments } from '@trainyard/decoder';

const PLAIN: SamplingSettings = { temperature: 1, ...NO_TRUNCATION };
const KEY = new DrawKey(1, 2);

/** Row whose softmax is exactly the given probabilities (up to float32). */
const rowOf = (probabilities: readonly number[]): Float32Array => Float32Array.from(probabilities, Math.log);

/** Ids drawn in 2000 draws. */
function support(
  row: Float32Array,
  settings: Partial<SamplingSettings>,
  adjustments: Partial<TokenAdjustments> = {},
): number[] {
  const buffers = new SamplerBuffers(row.length);
  const ids = new Set<number>();
  const random = new RandomStream(6n);
  for (let i = 0; i < 2000; i++) {
    ids.add(
      sampleToken(
        row,
        {
          settings: { ...PLAIN, ...settings },
          key: random.drawKey(),
          adjustments: { ...NO_ADJUSTMENTS, ...adjustments },
        },
        buffers,
      ).token,
    );
  }
  return [...ids].sort((a, b) => a - b);
}

/** Reference by definition, in float64 with full sorts: adjusted logits → probability of each token. */
function plainTwin(row: Float32Array, settings: SamplingSettings): number[] {
  let kept = Array.from(row, (_, id) => id).filter((id) => row[id] !== -Infinity);
  const weight = (id: number): number => Math.exp((row[id]! - Math.max(...row)) / settings.temperature);
  const mass = (ids: number[]): number => ids.reduce((sum, id) => sum + weight(id), 0);
  if (settings.topNSigma > 0) {
    const logits = kept.map((id) => row[id]! / settings.temperature);
    const mean = logits.reduce((sum, x) => sum + x, 0) / logits.length;
    const sigma = Math.sqrt(logits.reduce((sum, x) => sum + (x - mean) ** 2, 0) / logits.length);
    const cut = Math.max(...logits) - settings.topNSigma * sigma;
    kept = kept.filter((id) => row[id]! / settings.temperature >= cut);
  }
  if (settings.minP > 0) kept = kept.filter((id) => weight(id) >= settings.minP);
  if (settings.topK > 0) {
    const sorted = kept.map((id) => row[id]!).sort((a, b) => b - a);
    const kth = sorted[Math.min(settings.topK, sorted.length) - 1]!;
    kept = kept.filter((id) => row[id]! >= kth);
  }
  if (settings.topP < 1) {
    const total = mass(kept);
    const all = kept;
    kept = kept.filter((id) => mass(all.filter((other) => row[other]! > row[id]!)) < settings.topP * total);
  }
  const total = mass(kept);
  return Array.from(row, (_, id) => (kept.includes(id) ? weight(id) / total : 0));
}

function isAllowed(row: Float32Array, settings: SamplingSettings, token: number): boolean {
  if (row.every((x) => x === -Infinity)) return token === -1;
  // A cut at a border may fall on either side: allow the tokens of a slightly wider cut.
  const wider = {
    ...settings,
    topP: Math.min(1, settings.topP * (1 + 1e-9)),
    minP: settings.minP * (1 - 1e-9),
    topNSigma: settings.topNSigma * (1 + 1e-9),
  };
  return plainTwin(row, wider)[token]! > 0;
}

describe('truncation, by hand', () => {
  const row = rowOf([0.1, 0.4, 0.2, 0.05, 0.25]);

  test('top_k keeps the k most likely', () => {
    expect(support(row, { topK: 2 })).toEqual([1, 4]);
    expect(support(row, { topK: 1 })).toEqual([1]);
    expect(support(row, { topK: 5 })).toEqual([0, 1, 2, 3, 4]);
    expect(support(row, { topK: 99 })).toEqual([0, 1, 2, 3, 4]);
  });
  test('top_k keeps all ties of the k-th', () => {
    expect(support(Float32Array.of(3, 1, 2, 2, 2, 0), { topK: 2 })).toEqual([0, 2, 3, 4]);
  });
  test('top_p keeps a token while the mass of more likely ones is below it', () => {
    // in order: 0.4 | 0.25 (0.4 before) | 0.2 (0.65) | 0.1 (0.85) | 0.05 (0.95)
    expect(support(row, { topP: 0.39 })).toEqual([1]);
    expect(support(row, { topP: 0.41 })).toEqual([1, 4]);
    expect(support(row, { topP: 0.66 })).toEqual([1, 2, 4]);
    expect(support(row, { topP: 0.86 })).toEqual([0, 1, 2, 4]);
    expect(support(row, { topP: 0.96 })).toEqual([0, 1, 2, 3, 4]);
    expect(support(row, { topP: 1e-9 })).toEqual([1]);
  });
  test('top_p applies to the tokens that top_k left, renormalised', () => {
    // top_k 3 leaves 0.4 0.25 0.2 = 0.85: shares before are 0, 0.47, 0.76
    expect(support(row, { topK: 3, topP: 0.75 })).toEqual([1, 4]);
    expect(support(row, { topP: 0.75 })).toEqual([1, 2, 4]);
    expect(support(row, { topK: 3, topP: 0.77 })).toEqual([1, 2, 4]);
  });
  test('min_p is relative to the most likely, after temperature', () => {
    // 0.2 / 0.4 = 0.5; at T = 2 the ratio is sqrt(0.5) = 0.707
    expect(support(row, { minP: 0.55 })).toEqual([1, 4]);
    expect(support(row, { minP: 0.49 })).toEqual([1, 2, 4]);
    expect(support(row, { minP: 0.7, temperature: 2 })).toEqual([1, 2, 4]);
    expect(support(row, { minP: 1 })).toEqual([1]);
  });
  test('equal logits live or die together in top_p', () => {
    expect(support(new Float32Array(6), { topP: 0.1 })).toEqual([0, 1, 2, 3, 4, 5]);
  });
});

describe('adjustments, by hand', () => {
  const greedy = (row: Float32Array, adjustments: Partial<TokenAdjustments>): number =>
    sampleToken(
      row,
      { settings: { ...PLAIN, temperature: 0 }, key: KEY, adjustments: { ...NO_ADJUSTMENTS, ...adjustments } },
      new SamplerBuffers(row.length),
    ).token;

  test('repetition divides positive logits and multiplies others, over prompt and reply', () => {
    // 2 / 1.5 = 1.33 < 1.4
    expect(greedy(Float32Array.of(2, 1.4, -1), { repetitionPenalty: 1.5, promptIds: new Set([0]) })).toBe(1);
    // -1 * 1.5 = -1.5 < -1.4
    expect(greedy(Float32Array.of(-1, -1.4), { repetitionPenalty: 1.5, generatedCounts: new Map([[0, 1]]) })).toBe(1);
    // So small that both logits would be infinite, and nothing could be drawn.
    const tiny = { ...NO_ADJUSTMENTS, repetitionPenalty: 1e-300, promptIds: new Set([0, 1]) };
    const drawing = { settings: PLAIN, key: KEY, adjustments: tiny, logprobs: 'raw' } as const;
    const drawn = sampleToken(Float32Array.of(2, 1, 3), drawing, new SamplerBuffers(3));
    expect([0, 1]).toContain(drawn.token);
    // in prompt and reply, applied once: 2 / 1.5 = 1.33 > 1.2
    const both = { repetitionPenalty: 1.5, promptIds: new Set([0]), generatedCounts: new Map([[0, 3]]) };
    expect(greedy(Float32Array.of(2, 1.2), both)).toBe(0);
  });
  test('frequency counts each occurrence, presence once', () => {
    const generatedCounts = new Map([[0, 3]]);
    expect(greedy(Float32Array.of(2, 1.05), { frequencyPenalty: 0.3, generatedCounts })).toBe(0); // 1.1
    expect(greedy(Float32Array.of(2, 1.15), { frequencyPenalty: 0.3, generatedCounts })).toBe(1);
    expect(greedy(Float32Array.of(2, 1.65), { presencePenalty: 0.3, generatedCounts })).toBe(0); // 1.7
    expect(greedy(Float32Array.of(2, 1.75), { presencePenalty: 0.3, generatedCounts })).toBe(1);
    expect(greedy(Float32Array.of(2, 3), { presencePenalty: -2, generatedCounts })).toBe(0);
  });
  test('bias comes before the repetition penalty', () => {
    // (1 + 3) / 2 = 2 < 2.5; the other order would give 1 / 2 + 3 = 3.5
    expect(
      greedy(Float32Array.of(1, 2.5), { logitBias: [[0, 3]], repetitionPenalty: 2, promptIds: new Set([0]) }),
    ).toBe(1);
  });
  test('masked ids cannot come out, bias or not', () => {
    expect(greedy(Float32Array.of(9, 1), { masked: [0], logitBias: [[0, 100]] })).toBe(1);
    expect(support(Float32Array.of(9, 1, 1), {}, { masked: [0] })).toEqual([1, 2]);
  });
  test('only allowed ids come out, and banned ones do not', () => {
    expect(support(Float32Array.of(9, 1, 1, 1), {}, { allowed: [1, 3] })).toEqual([1, 3]);
    expect(support(Float32Array.of(9, 1, 1, 1), {}, { allowed: [0, 1, 3], banned: [0] })).toEqual([1, 3]);
    expect(greedy(Float32Array.of(9, 1, 2), { banned: [0] })).toBe(2);
  });
  test('masks come before bias and penalties: neither brings a token back', () => {
    const adjustments = { logitBias: [[0, 100]] as const, frequencyPenalty: -50, generatedCounts: new Map([[0, 9]]) };
    expect(greedy(Float32Array.of(1, 2, 3), { ...adjustments })).toBe(0);
    for (const mask of [{ allowed: [1, 2] }, { banned: [0] }, { masked: [0] }])
      expect(greedy(Float32Array.of(1, 2, 3), { ...adjustments, ...mask })).toBe(2);
  });
  test('when everything is masked, or the logits are not numbers, there is no token', () => {
    expect(greedy(Float32Array.of(1, 2), { masked: [0, 1] })).toBe(-1);
    expect(support(Float32Array.of(1, 2), {}, { masked: [0, 1] })).toEqual([-1]);
    expect(support(Float32Array.of(1, NaN), {})).toEqual([-1]);
    expect(support(Float32Array.of(NaN, NaN), { topP: 0.5 })).toEqual([-1]);
    expect(greedy(Float32Array.of(1, Infinity), {})).toBe(-1);
    expect(support(Float32Array.of(1, Infinity), { topK: 1 })).toEqual([-1]);
  });
  test('the row is raw again afterwards, and logprobs come from the raw row', () => {
    const row = rowOf([0.5, 0.3, 0.2]);
    const before = row.slice();
    const buffers = new SamplerBuffers(3);
    const adjustments: TokenAdjustments = {
      ...NO_ADJUSTMENTS,
      allowed: [1, 2],
      banned: [0],
      masked: [0],
      logitBias: [
        [1, -5],
        [1, 2],
      ],
      repetitionPenalty: 1.3,
      presencePenalty: 1,
      promptIds: new Set([1, 2]),
      generatedCounts: new Map([[1, 1]]),
    };
    const { token, logSumExp } = sampleToken(
      row,
      { settings: { ...PLAIN, temperature: 0.5, topP: 0.9 }, key: KEY, adjustments, logprobs: 'raw' },
      buffers,
    );
    expect(row).toEqual(before);
    expect(token).toBe(2);
    expect(row[token]! - logSumExp).toBeCloseTo(Math.log(0.2), 6);
  });
});

describe('distribution', () => {
  test.each<[string, Partial<SamplingSettings>]>([
    ['plain', {}],
    ['temperature 0.7', { temperature: 0.7 }],
    ['temperature 1.8, top_k 40', { temperature: 1.8, topK: 40 }],
    ['top_p 0.9', { topP: 0.9 }],
    ['min_p 0.05', { minP: 0.05 }],
    ['top_n_sigma 1.5', { topNSigma: 1.5 }],
    ['top_n_sigma 2, hot', { topNSigma: 2, temperature: 1.5 }],
    ['all together', { temperature: 1.2, topK: 60, topP: 0.95, minP: 0.01 }],
  ])('%s: 40,000 draws follow the definition', (name, partial) => {
    const settings = { ...PLAIN, ...partial };
    const shape = new RandomStream(77n);
    const row = Float32Array.from({ length: 300 }, () => 6 * shape.uniform() - 3); // crosses block borders
    const expected = plainTwin(row, settings);
    const buffers = new SamplerBuffers(row.length);
    const random = new RandomStream(1234n);
    const numDraws = 40_000;
    const counts = new Float64Array(row.length);
    for (let i = 0; i < numDraws; i++) counts[sampleToken(row, { settings, key: random.drawKey() }, buffers).token]!++;
    let chiSquare = 0;
    let freedom = -1;
    let numImpossible = 0;
    for (const [id, probability] of expected.entries()) {
      if (probability === 0) {
        numImpossible += counts[id]!;
        continue;
      }
      chiSquare += (counts[id]! - numDraws * probability) ** 2 / (numDraws * probability);
      freedom++;
    }
    expect(numImpossible).toBe(0);
    // Wilson-Hilferty: the cube root of chi-square / k is nearly normal.
    const z = (Math.cbrt(chiSquare / freedom) - (1 - 2 / (9 * freedom))) / Math.sqrt(2 / (9 * freedom));
    console.log(`${name}: chi-square ${chiSquare.toFixed(1)} at ${freedom} degrees of freedom, z = ${z.toFixed(2)}`);
    expect(Math.abs(z)).toBeLessThan(3.3);
  });

  test('any row and settings: the token is one the definition keeps', () => {
    const settings = fc.record({
      temperature: fc.double({ min: 0.05, max: 3, noNaN: true }),
      topP: fc.oneof(fc.constant(1), fc.double({ min: 0.01, max: 1, noNaN: true })),
      topK: fc.integer({ min: 0, max: 40 }),
      minP: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1, noNaN: true })),
      topNSigma: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 4, noNaN: true })),
    });
    const logit = fc.oneof(
      fc.integer({ min: -8, max: 8 }),
      fc.double({ min: -40, max: 40, noNaN: true }),
      fc.constant(-Infinity),
    );
    fc.assert(
      fc.property(fc.array(logit, { minLength: 1, maxLength: 400 }), settings, fc.nat(), (logits, chosen, key) => {
        const row = Float32Array.from(logits);
        const { token } = sampleToken(
          row,
          { settings: chosen, key: new DrawKey(key, 1) },
          new SamplerBuffers(row.length),
        );
        expect(isAllowed(row, chosen, token)).toBe(true);
      }),
      { numRuns: 400, seed: 11 },
    );
  });
});

describe('a draw under noise', () => {
  test.each<[string, Partial<SamplingSettings>]>([
    ['plain', {}],
    ['top_p 0.95', { topP: 0.95 }],
  ])(
    '%s: changes about as often as the distributions differ; a point on the running sum would far more often',
    (name, partial) => {
      const settings = { ...PLAIN, ...partial };
      const random = new RandomStream(31n);
      const normal = (): number =>
        Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());
      const buffers = new SamplerBuffers(1000);
      const numDraws = 1500;
      let numChanged = 0;
      let numChangedOnSum = 0;
      let expected = 0;
      for (let draw = 0; draw < numDraws; draw++) {
        const row = Float32Array.from({ length: 1000 }, () => 2.5 * normal());
        const other = row.map((x) => x + 0.03 * normal());
        const key = random.drawKey();
        const [a, b] = [row, other].map((each) => sampleToken(each, { settings, key }, buffers).token);
        if (a !== b) numChanged++;
        if (draw % 3 > 0) continue;
        const [p, q] = [row, other].map((each) => softmaxOf(each)) as [number[], number[]];
        expected += 1.5 * p.reduce((sum, value, id) => sum + Math.abs(value - q[id]!), 0);
        const uniform = random.uniform();
        if (pointOnSum(p, uniform) !== pointOnSum(q, uniform)) numChangedOnSum += 3;
      }
      console.log(
        `${name}: of ${numDraws} draws ${numChanged} changed; total variation ${expected.toFixed(0)}; on the running sum ${numChangedOnSum}`,
      );
      expect(numChanged).toBeLessThan(4 * expected);
      expect(numChanged).toBeLessThan(numChangedOnSum / 2);
    },
  );

  function softmaxOf(row: Float32Array): number[] {
    const total = row.reduce((sum, x) => sum + Math.exp(x), 0);
    return Array.from(row, (x) => Math.exp(x) / total);
  }
  function pointOnSum(probabilities: readonly number[], uniform: number): number {
    let running = 0;
    return probabilities.findIndex((p) => (running += p) > uniform);
  }
});

describe('logprobs', () => {
  test('log-sum-exp agrees with Math.exp in float64, under any other parameters', () => {
    const random = new RandomStream(3n);
    const buffers = new SamplerBuffers(5000);
    let largest = 0;
    for (let run = 0; run < 60; run++) {
      const row = Float32Array.from({ length: 5000 }, () => (random.uniform() - 0.5) * (1 + run * 2));
      const maximum = row.reduce((a, b) => Math.max(a, b), -Infinity);
      const expected = maximum + Math.log(row.reduce((sum, x) => sum + Math.exp(x - maximum), 0));
      for (const partial of [{}, { temperature: 0 }, { temperature: 0.6 }, { topK: 5 }, { topP: 0.4 }, { minP: 0.2 }]) {
        const { logSumExp } = sampleToken(
          row,
          { settings: { ...PLAIN, ...partial }, key: random.drawKey(), logprobs: 'raw' },
          buffers,
        );
        largest = Math.max(largest, Math.abs(logSumExp - expected));
      }
    }
    console.log(`log-sum-exp: largest difference ${largest.toExponential(1)}`);
    // Terms are float32: the logits themselves, at up to 60, are rounded to 4e-6.
    expect(largest).toBeLessThan(1e-7);
  });

  test('the table exponential is within 1e-11 of Math.exp and exactly 0 from -50 on', () => {
    let largest = 0;
    for (let x = 0; x > -49.9; x -= 0.00137) largest = Math.max(largest, Math.abs(expNegative(x) / Math.exp(x) - 1));
    console.log(`expNegative: largest relative error ${largest.toExponential(1)}`);
    expect(largest).toBeLessThan(1e-11);
    expect([expNegative(0), expNegative(-50), expNegative(-Infinity), expNegative(NaN)]).toEqual([1, 0, 0, NaN]);
  });

  test('the most likely tokens are those of a full sort', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -30, max: 30 }), { minLength: 1, maxLength: 700 }),
        fc.integer({ min: 0, max: 20 }),
        (logits, count) => {
          const row = Float32Array.from(logits);
          const buffers = new SamplerBuffers(row.length);
          sampleToken(row, { settings: PLAIN, key: KEY, logprobs: 'raw' }, buffers);
          const sorted = logits.map((_, id) => id).sort((a, b) => logits[b]! - logits[a]! || a - b);
          expect(mostLikelyTokens(row, count, buffers)).toEqual(sorted.slice(0, count));
        },
      ),
      { numRuns: 300, seed: 5 },
    );
  });

  test('processed: of the distribution that was drawn from, removed tokens at -Infinity', () => {
    const random = new RandomStream(21n);
    const buffers = new SamplerBuffers(300);
    let largest = 0;
    for (const partial of [
      {},
      { temperature: 0.5 },
      { topK: 7 },
      { topP: 0.6 },
      { minP: 0.1 },
      { topNSigma: 1 },
      { topNSigma: 2, temperature: 1.7, topP: 0.9 },
      { temperature: 1.7, topK: 90, topP: 0.9 },
    ]) {
      const settings = { ...PLAIN, ...partial };
      const raw = Float32Array.from({ length: 300 }, () => 8 * random.uniform());
      const row = raw.slice();
      const adjustments: TokenAdjustments = { ...NO_ADJUSTMENTS, banned: [4], logitBias: [[5, 3]] };
      const drawing = { settings, key: random.drawKey(), adjustments, logprobs: 'processed' } as const;
      const { token, logSumExp } = sampleToken(row, drawing, buffers);
      const adjusted = raw.slice();
      adjusted[4] = -Infinity;
      adjusted[5]! += 3;
      const expected = plainTwin(adjusted, settings);
      expect(expected[token]).toBeGreaterThan(0);
      for (const [id, probability] of expected.entries()) {
        if (probability === 0) expect(row[id]).toBe(-Infinity);
        else largest = Math.max(largest, Math.abs(row[id]! - logSumExp - Math.log(probability)));
      }
    }
    console.log(`processed logprobs: largest difference ${largest.toExponential(1)}`);
    expect(largest).toBeLessThan(2e-6); // the divided logits are float32
  });

  test('processed and greedy: masks, bias and penalties only', () => {
    const row = rowOf([0.5, 0.3, 0.2]);
    const buffers = new SamplerBuffers(3);
    const settings = { ...PLAIN, temperature: 0, topK: 1 };
    const { token, logSumExp } = sampleToken(
      row,
      { settings, key: KEY, adjustments: { ...NO_ADJUSTMENTS, banned: [0] }, logprobs: 'processed' },
      buffers,
    );
    expect(token).toBe(1);
    expect(Array.from(row, (x) => Math.exp(x - logSumExp))).toEqual([
      0,
      expect.closeTo(0.6, 6),
      expect.closeTo(0.4, 6),
    ]);
  });

  test('of a row with few possible tokens the likeliest are those, then the lowest ids', () => {
    const row = new Float32Array(5000).fill(-Infinity);
    row[4000] = 1;
    row[7] = 2;
    const buffers = new SamplerBuffers(5000);
    sampleToken(row, { settings: PLAIN, key: KEY, logprobs: 'raw' }, buffers);
    expect(mostLikelyTokens(row, 4, buffers)).toEqual([7, 4000, 0, 1]);
  });
});
