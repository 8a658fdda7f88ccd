import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, scheduleOf, type TrainingConfigInput } from '../config/training-config.ts';
import { learningRateAt } from './learning-rate.ts';

const at = (input: TrainingConfigInput, steps: number[]): number[] =>
  steps.map((step) => learningRateAt(step, scheduleOf({ ...resolveTrainingConfig(input), learningRate: 1 })));

describe('learningRateAt', () => {
  it('is constant unless something else is asked for', () => {
    expect(at({}, [0, 1, 1e6])).toEqual([1, 1, 1]);
  });

  it('warms up in equal parts and reaches the full rate right after', () => {
    expect(at({ learningRateWarmupSteps: 3 }, [0, 1, 2, 3, 4])).toEqual([0.25, 0.5, 0.75, 1, 1]);
  });

  it('decays along a line or a cosine from the end of the warm-up to the final fraction, and stays there', () => {
    const shape = { learningRateWarmupSteps: 2, learningRateDecaySteps: 6, learningRateFinalFraction: 0.5 };
    expect(at({ ...shape, learningRateSchedule: 'linear' }, [2, 3, 4, 5, 6, 99])).toEqual([
      1, 0.875, 0.75, 0.625, 0.5, 0.5,
    ]);
    // numpy: 0.5 + 0.5 * (1 + cos(pi * [0, .25, .5, .75, 1])) / 2
    const cosine = at({ ...shape, learningRateSchedule: 'cosine' }, [2, 3, 4, 5, 6, 99]);
    const expected = [1, 0.9267766952966369, 0.75, 0.5732233047033631, 0.5, 0.5];
    cosine.forEach((rate, i) => expect(rate).toBeCloseTo(expected[i]!, 12));
  });
});
