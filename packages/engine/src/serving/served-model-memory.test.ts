import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile } from '@trainyard/native';
import type { Architecture, Experts } from '@trainyard/transformer';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { BATCH_TOKENS, inspectServedModel, leastSamplingBytes } from './served-model-memory.ts';

const directory = mkdtempSync(join(tmpdir(), 'served-model-memory-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** Predictions of a file, and the bytes of those of its tensors that stay in memory if weights are streamed. */
function predicted(architecture: Architecture) {
  const path = join(directory, 'model.gguf');
  writeTinyGguf(path, architecture);
  using file = GgufFile.open(path);
  const kept = file.tensors.values().filter(({ name }) => /ffn_gate_inp|exps\.bias/.test(name));
  return { ...leastSamplingBytes(file), keptBytes: kept.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) };
}

const withExperts = (name: 'qwen3moe' | 'gpt-oss', experts: Partial<Experts>): Architecture => {
  const architecture = TINY_ARCHITECTURES[name];
  return { ...architecture, experts: { ...architecture.experts!, ...experts } };
};

test.each(['qwen3moe', 'gpt-oss'] as const)(
  'of streamed experts of a %s model routers and biases are in memory, and scores of a batch',
  (name) => {
    const [some, more] = [9, 90].map((count) => predicted(withExperts(name, { count })));
    const scoreBytes = 4 * BATCH_TOKENS * (90 - 9);
    expect(more!.streamed - some!.streamed).toBe(more!.keptBytes - some!.keptBytes + scoreBytes);
  },
);

test('rows of a batch by expert are in memory in both modes', () => {
  const { hiddenSize, experts } = TINY_ARCHITECTURES.qwen3moe;
  const [one, three] = [1, 3].map((used) => predicted(withExperts('qwen3moe', { used })));
  const rowBytes = 4 * BATCH_TOKENS * 2 * (2 * hiddenSize + 3 * experts!.feedForwardSize);
  for (const mode of ['resident', 'streamed'] as const) expect(three![mode] - one![mode]).toBe(rowBytes);
});

test('a dense layer has no router', () => {
  const [none, one] = [[], [1]].map((denseLayers) => predicted(withExperts('qwen3moe', { denseLayers })));
  expect(none!.streamed - one!.streamed).toBe(none!.keptBytes - one!.keptBytes);
});

test('the cache of a recurrent model in llama.cpp has no shelf', () => {
  const bytesOf = (name: 'lfm2' | 'qwen3') => {
    const modelPath = join(directory, `${name}.gguf`);
    writeTinyGguf(modelPath, TINY_ARCHITECTURES[name]);
    const sizes = { capacityTokens: 1024, maxSequences: 4, numThreads: 1 };
    const options = { modelPath, precision: 'fast', cacheDirectory: directory, ...sizes } as const;
    const { vocabulary, memory } = inspectServedModel(options);
    vocabulary.close();
    return memory.cacheBytes;
  };
  const { numKvHeads, headSize, numLayers } = TINY_ARCHITECTURES.qwen3;
  const bytesPerToken = 2 * 2 * numKvHeads * headSize;
  expect(bytesOf('qwen3')).toBe(1024 * 1.25 * bytesPerToken * numLayers);
  expect(bytesOf('lfm2')).toBe(1024 * bytesPerToken);
});
