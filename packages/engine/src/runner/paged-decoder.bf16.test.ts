import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DecoderBatch, PagedDecoder } from '@trainyard/decoder';
import type { DecoderAdapter } from '@trainyard/decoder';
import { GgufFile, LlamaModel, openBf16Library } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { modelRunnerSuite } from '../testing/model-runner.suite.ts';
import { writeTestAdapter } from '../testing/write-test-adapter.ts';

const folder = mkdtempSync(join(tmpdir(), 'bf16-runner-'));
afterAll(() => rmSync(folder, { recursive: true }));
const bf16 = openBf16Library(process.env['TRAINYARD_TEST_BF16_LIBRARY']!, 2);
const SIZES = { capacityTokens: 256, maxSequences: 8, batchTokens: 128, numThreads: 2 };
const TEXT =
  'A scheduler decides who runs next. Every sequence holds cells of one memory, which it lends and gives back; what two of them have in common is computed once, and kept for a third.';

using vocabulary = LlamaModel.load(testModel().base, { vocabOnly: true });
const tokens = Array.from(vocabulary.tokenize(TEXT, { addSpecial: false, parseSpecial: false }));
using file = GgufFile.open(testModel().base);
const model = { architecture: 'llama', embeddingLength: Number(file.metadata.get('llama.embedding_length')) };
const adapterPaths: [string, string] = [
  writeTestAdapter(model, join(folder, 'one.gguf'), 0.5),
  writeTestAdapter(model, join(folder, 'other.gguf'), -1),
];

modelRunnerSuite('matrices in bf16', () => ({
  runner: PagedDecoder.open(testModel().base, { ...SIZES, bf16 }),
  tokens,
  adapterPaths,
  spareCells: 2 * 8 * 16,
  tolerance: 1e-3,
  reproducibleTolerance: 0,
}));

test('log-probabilities are those of single precision but for the roundings, with an adapter and without', () => {
  const exact = PagedDecoder.open(testModel().base, SIZES);
  const rounded = PagedDecoder.open(testModel().base, { ...SIZES, bf16 });
  const rowsOf = (decoder: PagedDecoder, path: string | null): Float64Array[] => {
    const adapter = path === null ? null : decoder.loadAdapter(path);
    const batch = new DecoderBatch<DecoderAdapter>(SIZES.batchTokens);
    tokens.forEach((token, position) => batch.add({ token, position, sequence: 0, wantsLogits: true }, adapter));
    const logits = decoder.run(batch);
    const found = tokens.map((_, row) => logSoftmax(logits.row(row)));
    decoder.forget(0, 0);
    return found;
  };
  for (const path of [null, ...adapterPaths]) {
    const [expected, found] = [rowsOf(exact, path), rowsOf(rounded, path)];
    const gaps = tokens.slice(1).map((token, i) => Math.abs(expected[i]![token]! - found[i]![token]!));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    console.log(`adapter ${path !== null}: mean ${mean.toFixed(4)}, largest ${Math.max(...gaps).toFixed(4)}`);
    expect(mean).toBeLessThan(0.05);
    expect(mean).toBeGreaterThan(1e-4);
  }
  exact.close();
  rounded.close();
});

function logSoftmax(row: Float32Array): Float64Array {
  const maximum = row.reduce((a, b) => Math.max(a, b));
  const total = row.reduce((sum, x) => sum + Math.exp(x - maximum), 0);
  return Float64Array.from(row, (x) => x - maximum - Math.log(total));
}
