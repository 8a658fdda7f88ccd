import { expect, it } from 'vitest';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { policyLearningRate } from './policy-step.ts';

it('the learning rate grows with the histories of a step by the given power', () => {
  const at = (power: number, numHistories: number) =>
    policyLearningRate(
      0,
      numHistories,
      resolveTrainingConfig({ learningRate: 1, numTrajectoriesLearningRateMultiplierPower: power }),
    );
  expect(at(0.5, 16)).toBe(4);
  expect(at(-1, 4)).toBe(0.25);
  expect(at(0, 4)).toBe(1);
});
