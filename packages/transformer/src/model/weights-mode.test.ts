import { expect, test } from 'vitest';
import { memoryProblem, weightsModeOf } from './weights-mode.ts';

const file = (...dims: number[][]) =>
  ({ tensors: new Map(dims.map((one, i) => [`${i}`, { name: `${i}`, dims: one }])) }) as never;

test('auto is resident if weights of both hosts take at most half of the memory', () => {
  const model = file([1000, 1000], [500]);
  expect(weightsModeOf('auto', model, 16 * 1_000_500)).toBe('resident');
  expect(weightsModeOf('auto', model, 16 * 1_000_500 - 1)).toBe('streamed');
  expect(weightsModeOf('resident', model, 1)).toBe('resident');
  expect(weightsModeOf('streamed', model, 1e12)).toBe('streamed');
});

test('a model that does not fit is refused with its need, the free memory and the remedy that helps', () => {
  const needs = { resident: 5.1e9, streamed: 1.2e9 };
  expect(memoryProblem('resident', needs, 5.1e9)).toBeNull();
  expect(memoryProblem('resident', needs, 3.9e9)).toBe(
    'resident weights need 5.1 GB of memory, 3.9 GB are free: use --weights streamed',
  );
  for (const mode of ['resident', 'streamed'] as const)
    expect(memoryProblem(mode, needs, 1e9)).toContain('1.0 GB are free: use a smaller file such as Q4_0');
});
