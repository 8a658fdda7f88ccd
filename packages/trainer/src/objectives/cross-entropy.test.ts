import { expect, it } from 'vitest';
import { crossEntropy, CrossEntropyObjective } from './cross-entropy.ts';

it('the parts of rows add up to the mean', () => {
  const parts = [crossEntropy(Float32Array.of(-1, -2), 5), crossEntropy(Float32Array.of(-3, -4, -5), 5)];
  expect(parts.reduce((sum, { loss }) => sum + loss, 0)).toBe(3);
  for (const { gradient } of parts) expect([...gradient].every((value) => value === Math.fround(-0.2))).toBe(true);
});

it('an objective sums the rows that it was asked about', () => {
  const objective = new CrossEntropyObjective(5);
  const forward = (...logprobs: number[]) => ({
    logprobs: Float32Array.from(logprobs),
    entropies: new Float32Array(0),
  });
  expect(objective.rowGradient(0, forward(-1, -2)).loss).toBe(0.6);
  objective.rowGradient(1, forward(-3, -4, -5));
  expect(objective.loss).toBe(3);
  expect(objective.usesEntropies).toBe(false);
});
