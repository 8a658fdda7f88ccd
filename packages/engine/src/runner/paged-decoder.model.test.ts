import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, LlamaModel } from '@trainyard/native';
import { afterAll, beforeAll } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { modelRunnerSuite } from '../testing/model-runner.suite.ts';
import { writeTestAdapter } from '../testing/write-test-adapter.ts';
import { PagedDecoder } from '@trainyard/decoder';

const folder = mkdtempSync(join(tmpdir(), 'exact-runner-'));
const TEXT =
  'A scheduler decides who runs next. Every sequence holds cells of one memory, which it lends and gives back; what two of them have in common is computed once, and kept for a third.';
let tokens: readonly number[];
let adapterPaths: [string, string];

beforeAll(() => {
  using vocabulary = LlamaModel.load(testModel().small, { vocabOnly: true });
  tokens = Array.from(vocabulary.tokenize(TEXT, { addSpecial: false, parseSpecial: false }));
  using file = GgufFile.open(testModel().small);
  const model = { architecture: 'llama', embeddingLength: Number(file.metadata.get('llama.embedding_length')) };
  adapterPaths = [
    writeTestAdapter(model, join(folder, 'one.gguf'), 0.5),
    writeTestAdapter(model, join(folder, 'other.gguf'), -1),
  ];
});
afterAll(() => rmSync(folder, { recursive: true }));

modelRunnerSuite('ONNX Runtime', () => ({
  runner: PagedDecoder.open(testModel().small, {
    capacityTokens: 256,
    maxSequences: 8,
    batchTokens: 128,
    numThreads: 1,
  }),
  tokens,
  adapterPaths,
  spareCells: 2 * 8 * 16,
  tolerance: 1e-3,
  reproducibleTolerance: 0,
}));
