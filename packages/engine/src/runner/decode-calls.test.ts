import { expect, test } from 'vitest';
import { decodeCalls } from './decode-calls.ts';
import { StepBatch } from './model-runner.ts';

/** @param counts rows of each sequence */
function batchOf(counts: readonly number[]): StepBatch {
  const batch = new StepBatch(1024);
  batch.clear();
  for (const [sequence, count] of counts.entries())
    for (let i = 0; i < count; i++) batch.add({ token: 7, position: i, sequence, wantsLogits: true });
  return batch;
}
const sizes = (counts: readonly number[], tileRows = 64): number[] =>
  decodeCalls(batchOf(counts), tileRows).map((call) => call.length);
const ones = (count: number): number[] => Array.from({ length: count }, () => 1);

test('rows that make no tile are one call', () => {
  expect(sizes([1])).toEqual([1]);
  expect(sizes(ones(63))).toEqual([63]);
  expect(sizes([40, ...ones(20)])).toEqual([60]);
  expect(sizes([512, ...ones(64)], Infinity)).toEqual([576]);
});

test('many sequences are computed in even parts, each smaller than a tile', () => {
  expect(sizes(ones(64))).toEqual([32, 32]);
  expect(sizes(ones(127))).toEqual([42, 43, 42]);
  expect(sizes(ones(256)).every((size) => size >= 32 && size < 64)).toBe(true);
});

test('prompts are computed apart, in tiles, unless a single row would be alone', () => {
  expect(sizes([...ones(8), 128])).toEqual([128, 8]);
  expect(sizes([512])).toEqual([512]);
  expect(sizes([1, 128])).toEqual([129]);
  expect(sizes([1, 128, 100, 1])).toEqual([228, 2]);
});

test('each row is in one call, and rows of a call are in the order of the batch', () => {
  const batch = batchOf([1, 3, 1, 90, ...ones(70)]);
  const calls = decodeCalls(batch, 64);
  expect(calls.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: batch.length }, (_, i) => i));
  for (const call of calls) expect(call).toEqual(call.toSorted((a, b) => a - b));
});
