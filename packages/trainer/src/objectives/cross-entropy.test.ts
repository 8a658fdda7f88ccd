import { expect, it } from 'vitest';
import { crossEntropy, CrossEntropyObjective } from './cross-entropy.ts';

it('the parts of rows add up to the mean', () => {
  const parts = [crossEntropy(Float32Array.of(-1, -2), 5), crossEntropy(Float32Array.of(-3, -4, -5), 5)];
  expect(parts.reduce((sum, { loss }) => sum + loss, 0)).toBe(3);
  for (const { gradient } of parts) expect([...gradient].every((value) => value === Math.fround(-0.2))).toBe(true);
});

it('an objective sums the rows that it was asked about', () => {
  const objective = new CrossEntropyObjective(5);
  const output = (...logprobs: number[]) => ({ logprobs: Float32Array.from(logprobs), entropies: null });
  expect(objective.rowGradients([output(-1, -2)]).map(({ loss }) => loss)).toEqual([0.6]);
  objective.rowGradients([output(-3), output(-4, -5)]);
  expect(objective.loss).toBe(3);
  expect(objective.usesEntropies).toBe(false);
});
