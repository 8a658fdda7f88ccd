import { expect, test } from 'vitest';

import { type MeasuredStep, type MeasuredSteps, predictStep } from './predict-step.ts';

const step = (size: number, cores: number, seconds: number): MeasuredStep => ({
  shape: `${size}M`,
  parameters: { total: size, multiplied: size },
  cores,
  sampledPerSecond: 1000 / seconds,
  trainedPerSecond: 4000 / seconds,
  stepSeconds: seconds,
  peakBytes: 100 + 8 * size,
});
const steps = (...rows: MeasuredStep[]): MeasuredSteps => ({ machine: 'any', isTrial: false, rows });
const near = (value: number): unknown => expect.closeTo(value, 6);
const size = (parameters: number) => ({ total: parameters, multiplied: parameters });

test('measured steps are predicted as they were', () => {
  const table = steps(step(100, 2, 10), step(400, 2, 30), step(100, 4, 6));
  expect(predictStep(table, size(400), 2)).toEqual({
    measured: { machine: 'any', isTrial: false },
    cores: 2,
    sampledPerSecond: near(1000 / 30),
    trainedPerSecond: near(4000 / 30),
    stepSeconds: near(30),
    isExtrapolated: false,
  });
});

test('sizes between two measured ones follow their power; beyond them time is proportional', () => {
  const table = steps(step(400, 2, 80), step(100, 2, 10));
  // 8 times the time for 4 times the size: a power of 1.5.
  expect(predictStep(table, size(200), 2)).toMatchObject({ stepSeconds: near(10 * 2 ** 1.5) });
  expect(predictStep(table, size(800), 2)).toMatchObject({
    stepSeconds: near(160),
    isExtrapolated: true,
  });
  expect(predictStep(table, size(50), 2)).toMatchObject({ stepSeconds: near(5) });
  expect(predictStep(steps(step(100, 2, 10)), size(200), 2)).toMatchObject({
    stepSeconds: near(20),
  });
});

test('more cores follow the measured gain, fewer are proportional, and no gain is invented', () => {
  // Twice the cores: 10 / 6 of the speed.
  const table = steps(step(100, 2, 10), step(100, 4, 6), step(400, 4, 30));
  expect(predictStep(table, size(100), 8)).toMatchObject({ stepSeconds: near(3.6), isExtrapolated: true });
  expect(predictStep(table, size(100), 3)?.stepSeconds).toBeCloseTo(10 / 1.5 ** Math.log2(10 / 6), 6);
  expect(predictStep(table, size(100), 1)).toMatchObject({ stepSeconds: near(20), isExtrapolated: false });
  expect(predictStep(steps(step(100, 2, 10)), size(100), 8)).toMatchObject({ stepSeconds: near(10) });
  expect(predictStep(steps(), size(100), 8)).toBeNull();
});
