import { describe, expect, it } from 'vitest';
import { learningRates, numSftSteps, resolveSftConfig, storedSftConfig, type SftConfigInput } from './sft-config.ts';

const resolve = (input: SftConfigInput = {}) => resolveSftConfig(input, { maxSequenceLength: 100 });
/** Settings with numeric rates. */
const rated = (input: SftConfigInput = {}) => {
  const { learningRate, ...config } = resolve({ learningRate: 1e-4, ...input });
  if (learningRate === 'auto') throw new Error('the test gives a rate');
  return { ...config, learningRate };
};

describe('resolveSftConfig', () => {
  it('has the defaults of the reference; null is absent', () => {
    const defaults = resolve();
    expect(defaults).toEqual({
      batchSize: 2,
      learningRate: 'auto',
      epochs: 1,
      learningRateSchedule: 'constant',
      learningRateWarmupSteps: 0,
      learningRateMinimum: 0,
      assistantTurns: 'all',
      packing: true,
      heldOutFraction: null,
      heldOutSeed: 0,
      heldOutExamples: 100,
      heldOutEvery: null,
      maxSequenceLength: 100,
      adamBeta1: 0.9,
      adamBeta2: 0.99,
      adamEpsilon: 1e-8,
      weightDecay: 0,
      maxGradNorm: 1,
    });
    expect(
      resolve({ batchSize: null, learningRate: null, epochs: null, learningRateSchedule: null, packing: null }),
    ).toEqual(defaults);
    expect(resolve({ batchSize: 'auto', learningRate: 'auto' })).toEqual(defaults);
    expect(() => resolve({ learningRateMinimum: 1e-5 })).toThrow(
      '`min_learning_rate` requires a number as `learning_rate`',
    );
    expect(resolve({ learningRate: 0, packing: false })).toMatchObject({ learningRate: 0, packing: false });
  });

  it.each<[string, SftConfigInput, string]>([
    ['no batch', { batchSize: 0 }, '`batch_size` must be an integer in [1, 65536], got 0'],
    ['half a batch', { batchSize: 1.5 }, '`batch_size`'],
    [
      'a negative rate',
      { learningRate: -1 },
      '`learning_rate` must be a finite number in [0, 3.4028234663852886e+38], got -1',
    ],
    [
      'an invalid rate value',
      { learningRate: [1e-4, Number.NaN] },
      '`learning_rate[1]` must be a finite number in [0, 3.4028234663852886e+38], got NaN',
    ],
    ['no epochs', { epochs: 0 }, '`epochs` must be an integer in [1, 1000], got 0'],
    ['a minimum above the rate', { learningRate: 1e-5, learningRateMinimum: 1e-4 }, '`min_learning_rate`'],
    ['a schedule on a list', { learningRate: [1e-4], learningRateSchedule: 'linear' }, '`schedule`'],
    ['a warm-up on a list', { learningRate: [1e-4], learningRateWarmupSteps: 1 }, '`warmup_steps`'],
  ])('refuses %s', (_name, input, message) => {
    expect(() => resolve(input)).toThrow(
      expect.objectContaining({ code: 'trainer.config_invalid', message: expect.stringContaining(message) as string }),
    );
  });
});

describe('learningRates', () => {
  // From `create_lr_schedule` of openpipe-art 0.5.18.
  it.each<[SftConfigInput, number, number[]]>([
    [
      { learningRate: 1e-4, learningRateSchedule: 'linear', learningRateWarmupSteps: 2, learningRateMinimum: 1e-5 },
      6,
      [5.5e-5, 1e-4, 1e-4, 7e-5, 4e-5, 1e-5],
    ],
    [
      { learningRate: 1e-4, learningRateSchedule: 'cosine', learningRateWarmupSteps: 2, learningRateMinimum: 1e-5 },
      6,
      [5.5e-5, 1e-4, 1e-4, 7.75e-5, 3.25e-5, 1e-5],
    ],
    [{ learningRate: 1e-4, learningRateWarmupSteps: 2 }, 3, [5e-5, 1e-4, 1e-4]],
    [{ learningRate: 2e-4, learningRateSchedule: 'linear' }, 1, [2e-4]],
    [
      { learningRate: 2e-4, learningRateSchedule: 'cosine', learningRateWarmupSteps: 3, learningRateMinimum: 1e-5 },
      2,
      [7.333333333333333e-5, 1.3666666666666666e-4],
    ],
  ])('%j over %i steps are those of the client', (input, numSteps, expected) => {
    const rates = learningRates(rated(input), numSteps);
    expect(rates).toHaveLength(numSteps);
    const gaps = rates.map((rate, i) => Math.abs(rate / expected[i]! - 1));
    console.log(`largest relative difference from the client's schedule ${Math.max(...gaps).toExponential(1)}`);
    expect(Math.max(...gaps)).toBeLessThan(1e-12);
  });

  it('of a list are its first ones; a list too short is refused with both numbers', () => {
    expect(learningRates(rated({ learningRate: [1, 2, 3] }), 2)).toEqual([1, 2]);
    expect(() => learningRates(rated({ learningRate: [1, 2, 3] }), 4)).toThrow('each of the 4 batches, got 3');
  });
});

it('a job of more gradient steps than may be is refused before any of them takes memory', () => {
  const config = rated({ batchSize: 1, epochs: 1000 });
  expect(learningRates(config, numSftSteps(100, config))).toHaveLength(100_000);
  for (const numExamples of [101, 5_000_000]) {
    expect(() => learningRates(config, numSftSteps(numExamples, config))).toThrow(
      expect.objectContaining({
        code: 'trainer.config_invalid',
        message: `\`epochs\` 1000 and \`batch_size\` 1 make ${numExamples * 1000} gradient steps with this data; a job may take at most 100000`,
      }),
    );
  }
});

it('the last batch of a pass may be short, and no batch crosses two passes', () => {
  expect(numSftSteps(5, { batchSize: 2, epochs: 1 })).toBe(3);
  expect(numSftSteps(5, { batchSize: 2, epochs: 2 })).toBe(6);
  expect(numSftSteps(0, { batchSize: 2, epochs: 3 })).toBe(0);
});

it('settings that were stored under former names are read as those of today', () => {
  const { learningRateSchedule, learningRateWarmupSteps, learningRateMinimum, ...others } = resolve({
    learningRate: 1e-4,
    learningRateSchedule: 'linear',
    learningRateWarmupSteps: 3,
    learningRateMinimum: 1e-5,
  });
  const former = {
    ...others,
    schedule: learningRateSchedule,
    warmupSteps: learningRateWarmupSteps,
    minLearningRate: learningRateMinimum,
  };
  const today = { ...others, learningRateSchedule, learningRateWarmupSteps, learningRateMinimum };
  expect(storedSftConfig(former)).toEqual(today);
  expect(storedSftConfig(today)).toEqual(today);
});
