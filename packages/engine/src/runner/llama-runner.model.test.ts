import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaModel } from '@trainyard/native';
import { afterAll, beforeAll } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { modelRunnerSuite } from '../testing/model-runner.suite.ts';
import { writeTestAdapter } from '../testing/write-test-adapter.ts';
import { LlamaRunner } from './llama-runner.ts';

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
  // One thread: two that spin against other work on the machine take many times as long.
  runner: new LlamaRunner(model, { contextTokens: 256, maxSequences: 8, batchTokens: 128, numThreads: 1 }),
  tokens: Array.from(model.tokenize(TEXT, { addSpecial: false, parseSpecial: false })),
  adapterPaths,
  spareCells: 4,
  // What other shapes of batches were seen to change is up to 0.04, where logits span 40.
  tolerance: 0.1,
  // Never alone in its batch, a token differs by the roundings of the other shapes.
  reproducibleTolerance: 0.02,
}));
