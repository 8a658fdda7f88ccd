/** Batches by packed weights against the graphs with float32 weights: the same bits. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, quantizeModel } from '@trainyard/native';
import { readArchitecture } from '@trainyard/transformer';
import { randomSource, writeAdapter } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { DecoderGraphs } from '../graphs/decoder-graphs.ts';
import type { DecoderAdapter } from '../adapters/decoder-adapter.ts';
import { DecoderBatch } from './decoder-batch.ts';
import { PagedDecoder } from './paged-decoder.ts';
import { copiedLogits } from './testing/sequence-runs.ts';

const directory = mkdtempSync(join(tmpdir(), 'few-rows-'));
afterAll(() => rmSync(directory, { recursive: true }));
const SIZES = { capacityTokens: 2048, maxSequences: 6, batchTokens: 64, numThreads: 2 };

/** Logits of some steps: prompts, one to four sequences per step, then more rows, with and without adapters. */
function steps(decoder: PagedDecoder, adapterPath: string): Float32Array[] {
  const adapter = decoder.loadAdapter(adapterPath);
  const batch = new DecoderBatch<DecoderAdapter>(SIZES.batchTokens);
  const adapters = [null, adapter, null, adapter];
  const found: Float32Array[] = [];
  const run = () => found.push(...copiedLogits(decoder, batch));
  for (const [sequence, own] of adapters.entries()) {
    for (let i = 0; i < 40 + sequence; i++)
      batch.add({ token: (31 * i + sequence) % 4096, position: i, sequence, wantsLogits: i > 37 }, own);
    run();
  }
  for (const [step, members] of [[0], [1], [0, 2], [1, 3], [0, 1, 2, 3], [3], [2, 1, 0]].entries()) {
    for (const sequence of members)
      batch.add(
        { token: (97 * step + sequence) % 4096, position: lengths(decoder)[sequence]!++, sequence, wantsLogits: true },
        adapters[sequence]!,
      );
    run();
  }
  // Twenty rows: five tokens of each sequence.
  for (const [sequence, own] of adapters.entries())
    for (let i = 0; i < 5; i++) {
      const position = lengths(decoder)[sequence]!++;
      batch.add({ token: (53 * i + sequence) % 4096, position, sequence, wantsLogits: true }, own);
    }
  run();
  return found;
}

const kept = new WeakMap<PagedDecoder, number[]>();
function lengths(decoder: PagedDecoder): number[] {
  const found = kept.get(decoder) ?? [40, 41, 42, 43];
  kept.set(decoder, found);
  return found;
}

test.each(['q4_0', 'q8_0', 'of the file'] as const)('%s: one to twenty rows, with adapters and without', (type) => {
  const path = type === 'of the file' ? testModel().base : join(directory, `${type}.gguf`);
  if (type !== 'of the file') quantizeModel(testModel().small, path, type, 2);
  using file = GgufFile.open(path);
  const architecture = readArchitecture(file);
  const adapterPath = join(directory, `adapter-${type}.gguf`);
  const random = randomSource(3);
  writeAdapter(adapterPath, architecture, { rank: 8, alpha: 16 }, () => 0.05 * random());
  // WebAssembly only where the model is small.
  const found = (type === 'of the file' ? [true] : [true, false]).map((usesNativeKernels) => {
    const decoder = PagedDecoder.open(path, { ...SIZES, usesNativeKernels });
    const rows = steps(decoder, adapterPath);
    expect(decoder.packedBatches).toBe(usesNativeKernels ? 'all' : 'few');
    decoder.close();
    return rows;
  });
  const graphs = new DecoderGraphs(file, architecture, 2);
  const whole = new PagedDecoder(graphs, { ...SIZES, contextLength: SIZES.capacityTokens });
  expect(whole.packedBatches).toBe('none');
  const expected = steps(whole, adapterPath);
  whole.close();
  graphs.close();
  for (const rows of found) {
    expect(rows).toHaveLength(2 + 3 + 4 + 5 + 14 + 20);
    for (const [i, row] of rows.entries()) expect(row, `row ${i}`).toEqual(expected[i]);
  }
});

test('half precision is computed by packed weights too, in WebAssembly by the graphs', () => {
  for (const usesNativeKernels of [true, false]) {
    const decoder = PagedDecoder.open(testModel().small, { ...SIZES, usesNativeKernels });
    expect(decoder.packedBatches).toBe(usesNativeKernels ? 'all' : 'none');
    decoder.close();
  }
});
