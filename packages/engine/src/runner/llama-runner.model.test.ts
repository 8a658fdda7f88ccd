import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaModel, type LlamaContextOptions } from '@trainyard/native';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { testModel } from '../../../../tests/support/model.ts';
import { modelRunnerSuite } from '../testing/model-runner.suite.ts';
import { writeTestAdapter } from '../testing/write-test-adapter.ts';
import { LlamaRunner } from './llama-runner.ts';
import { StepBatch } from './model-runner.ts';

const folder = mkdtempSync(join(tmpdir(), 'llama-runner-'));
const TEXT =
  'A scheduler decides who runs next. Every sequence holds cells of one memory, which it lends and gives back; what two of them have in common is computed once, and kept for a third.';
let model: LlamaModel;
let adapterPaths: [string, string];

beforeAll(() => {
  model = LlamaModel.load(testModel().f16);
  adapterPaths = [
    writeTestAdapter(model, join(folder, 'one.gguf'), 0.5),
    writeTestAdapter(model, join(folder, 'other.gguf'), -1),
  ];
});
afterAll(() => {
  model?.close();
  rmSync(folder, { recursive: true });
});

modelRunnerSuite('llama.cpp', () => ({
  // One thread: two spinning threads take many times as long next to other work.
  runner: new LlamaRunner(model, { contextTokens: 256, maxSequences: 8, batchTokens: 128, numThreads: 1 }),
  tokens: Array.from(model.tokenize(TEXT, { addSpecial: false, parseSpecial: false })),
  adapterPaths,
  spareCells: 4,
  // Batch shapes changed logits by up to 0.04 in experiments; logits span 40.
  tolerance: 0.1,
  // A token that is never alone differs only by the roundings of other shapes.
  reproducibleTolerance: 0.02,
}));

/** Runs tokens of sequences, each from the position given. @returns the logits of the last token of each */
function run(
  runner: LlamaRunner,
  pieces: readonly { sequence: number; tokens: readonly number[]; from: number }[],
): Float32Array[] {
  const batch = new StepBatch(runner.batchTokens);
  batch.clear();
  batch.isReproducible = true;
  for (const { sequence, tokens, from } of pieces)
    for (const [i, token] of tokens.entries())
      batch.add({ token, position: from + i, sequence, wantsLogits: i === tokens.length - 1 });
  const rows = runner.run(batch);
  return pieces.map((_, i) => rows.row(i).slice());
}

test('of a model with a state of whole sequences nothing is shared or moved', () => {
  const path = join(folder, 'lfm2.gguf');
  writeTinyGguf(path, TINY_ARCHITECTURES.lfm2);
  using recurrent = LlamaModel.load(path);
  expect([recurrent.hasRecurrentState, model.hasRecurrentState]).toEqual([true, false]);
  const runner = new LlamaRunner(recurrent, { contextTokens: 256, maxSequences: 4, batchTokens: 64, numThreads: 1 });
  expect(runner.shareGranularity).toBe(Infinity);
  const tokens = Array.from({ length: 20 }, (_, i) => (37 * i + 5) % 256);
  const [expected] = run(runner, [{ sequence: 0, tokens, from: 0 }]);
  run(runner, [{ sequence: 1, tokens: tokens.slice(0, 19), from: 0 }]);
  // More rows than after which idle cells are moved.
  for (let i = 0; i < 4; i++) {
    runner.forget(2, 0);
    run(runner, [{ sequence: 2, tokens: tokens.toReversed(), from: 0 }]);
  }
  expect(runner.shelvedCells).toBe(0);
  const [found] = run(runner, [{ sequence: 1, tokens: tokens.slice(19), from: 19 }]);
  const largest = Math.max(...expected!.map((logit, id) => Math.abs(logit - found![id]!)));
  console.log(`largest difference of a logit, continued or in one batch: ${largest.toExponential(1)}`);
  expect(largest).toBeLessThan(0.05);
  runner.close();
});

test('cells that nothing was computed with while many rows were leave the context, and come back to the bit', () => {
  const tokens = Array.from(model.tokenize(TEXT, { addSpecial: false, parseSpecial: false }));
  const runner = new LlamaRunner(model, { contextTokens: 256, maxSequences: 8, batchTokens: 128, numThreads: 1 });
  run(runner, [{ sequence: 0, tokens: tokens.slice(0, 12), from: 0 }]);
  runner.share(0, 2, 8);
  const ends = [
    [{ sequence: 0, tokens: tokens.slice(12, 14), from: 12 }],
    [{ sequence: 2, tokens: tokens.slice(8, 10), from: 8 }],
  ] as const;
  const expected = ends.map((end) => run(runner, end));
  runner.forget(0, 12);
  runner.forget(2, 8);
  const others = [...tokens, ...tokens];
  const pass = (from: number, count: number) =>
    run(runner, [{ sequence: 1, tokens: others.slice(from, from + count), from }]);
  pass(0, 60);
  pass(60, 4);
  expect([runner.residentCells, runner.shelvedCells]).toEqual([12 + 64, 0]);
  pass(64, 2);
  expect([runner.residentCells, runner.shelvedCells]).toEqual([66, 12]);
  expect(run(runner, ends[1])).toEqual(expected[1]);
  expect(runner.shelvedCells).toBe(4); // cells held only by sequence 0
  expect(run(runner, ends[0])).toEqual(expected[0]);
  for (const sequence of [0, 1, 2]) runner.forget(sequence, 0);
  expect([runner.residentCells, runner.shelvedCells]).toEqual([0, 0]);
  runner.close();
});

test('many sequences at once have the logits of few, in the order of the batch', () => {
  const tokens = Array.from(model.tokenize(TEXT, { addSpecial: false, parseSpecial: false }));
  const runner = new LlamaRunner(model, { contextTokens: 256, maxSequences: 80, batchTokens: 128, numThreads: 1 });
  run(runner, [{ sequence: 0, tokens: tokens.slice(0, 4), from: 0 }]);
  for (let sequence = 1; sequence < 70; sequence++) runner.share(0, sequence, 4);
  const next = (sequence: number) => ({ sequence, tokens: [tokens[sequence % 2]!], from: 4 });
  const expected = run(runner, [next(68), next(69)]);
  const sequences = Array.from({ length: 66 }, (_, sequence) => sequence);
  const prompt = { sequence: 75, tokens: tokens.slice(0, 5), from: 0 };
  const rows = run(runner, [...sequences.slice(0, 30).map(next), prompt, ...sequences.slice(30).map(next)]);
  rows.splice(30, 1);
  for (const [sequence, row] of rows.entries()) {
    const largest = row.reduce((most, value, i) => Math.max(most, Math.abs(value - expected[sequence % 2]![i]!)), 0);
    expect(largest).toBeLessThanOrEqual(0.1);
  }
  runner.close();
});

test('without flash attention, log-probabilities after a long context are those of single precision to some thousandths', () => {
  using small = LlamaModel.load(testModel().small);
  const tokens = Array.from(small.tokenize(`${TEXT} `.repeat(75), { addSpecial: false, parseSpecial: false }));
  const [prompt, reply] = [tokens.slice(0, 2000), tokens.slice(2000, 2009)];
  expect(reply).toHaveLength(9);
  const logprobs = (options: Pick<LlamaContextOptions, 'cachePrecision' | 'flashAttention'>): number[] => {
    const sizes = { contextTokens: 2304, maxSequences: 2, batchTokens: 512, numThreads: 1 };
    const runner = new LlamaRunner(small, { ...sizes, ...options });
    for (let from = 0; from < prompt.length; from += 500)
      run(runner, [{ sequence: 0, tokens: prompt.slice(from, from + 500), from }]);
    const found = reply.slice(0, -1).map((token, i) => {
      const [row] = run(runner, [{ sequence: 0, tokens: [token], from: prompt.length + i }]);
      const largest = row!.reduce((max, logit) => Math.max(max, logit), -Infinity);
      return row![reply[i + 1]!]! - largest - Math.log(row!.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
    });
    runner.close();
    return found;
  };
  const single = logprobs({ cachePrecision: 'f32' });
  const gaps = (of: readonly number[]) => of.map((logprob, i) => Math.abs(logprob - single[i]!));
  const half = gaps(logprobs({ cachePrecision: 'f16', flashAttention: false }));
  console.log(`largest gap ${Math.max(...half)}, with flash attention ${Math.max(...gaps(logprobs({})))}`);
  expect(Math.max(...half)).toBeLessThan(0.02);
}, 60_000);
