/** Weights that stay in the model file against resident ones: the same bits. */
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, quantizeModel } from '@trainyard/native';
import { type Architecture, readArchitecture } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURES, writeAdapter, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import type { DecoderAdapter } from '../adapters/decoder-adapter.ts';
import { StreamedMatrices } from '../products/streamed-matrices.ts';
import { DecoderBatch } from './decoder-batch.ts';
import { PagedDecoder } from './paged-decoder.ts';
import { copiedLogits } from './testing/sequence-runs.ts';

const directory = mkdtempSync(join(tmpdir(), 'streamed-decoder-'));
afterAll(() => rmSync(directory, { recursive: true }));
const SIZES = { capacityTokens: 512, maxSequences: 16, batchTokens: 32, numThreads: 2 };

/** More inputs than are summed in one chain, and rows in several units. */
const WIDE = { hiddenSize: 320, numHeads: 10, numKvHeads: 5, headSize: 32, feedForwardSize: 576 };

/** More rows per expert than are expanded at a time. */
const EXPERTS = { count: 6, used: 2, feedForwardSize: 288, normalisesShares: true, denseLayers: [] };

/** Logits of a prompt in batches, then of steps with one to sixteen sequences, some with an adapter. */
function logitsOf(decoder: PagedDecoder, adapterPath: string): Float32Array[] {
  const adapter = decoder.loadAdapter(adapterPath);
  const batch = new DecoderBatch<DecoderAdapter>(SIZES.batchTokens);
  const found: Float32Array[] = [];
  const run = () => found.push(...copiedLogits(decoder, batch));
  const lengths = Array.from({ length: SIZES.maxSequences }, () => 0);
  const add = (sequence: number, wantsLogits: boolean) => {
    const position = lengths[sequence]!++;
    const token = (31 * position + 7 * sequence) % 256;
    batch.add({ token, position, sequence, wantsLogits }, sequence % 3 === 1 ? adapter : null);
  };
  for (const count of [32, 9]) {
    for (let i = 0; i < count; i++) add(0, i > count - 4);
    run();
  }
  for (const numSequences of [1, 2, 4, 5, 8, 9, 13, 16]) {
    for (let sequence = 0; sequence < numSequences; sequence++) add(sequence, sequence !== 3);
    run();
  }
  return found;
}

const FILES: readonly (readonly [keyof typeof TINY_ARCHITECTURES, 'f32' | 'f16' | 'bf16' | 'q4_0' | 'q8_0', object])[] =
  [
    ['llama', 'q4_0', WIDE],
    ['llama', 'f32', {}],
    ['qwen2', 'q8_0', {}],
    ['qwen3', 'bf16', WIDE],
    ['gemma3', 'f16', WIDE],
    ['granite', 'q8_0', {}],
    ['smollm3', 'q4_0', WIDE],
    ['phi4', 'q8_0', {}],
    ['phi3', 'f32', {}],
    ['lfm2', 'q4_0', WIDE],
    ['qwen35', 'q4_0', WIDE],
    ['qwen3moe', 'q4_0', { ...WIDE, experts: { ...EXPERTS, denseLayers: [1] } }],
    ['qwen3moe', 'bf16', { experts: EXPERTS }],
    ['gpt-oss', 'q8_0', {}],
    ['granitemoe', 'q4_0', { ...WIDE, experts: { ...EXPERTS, hasSharedFeedForward: true } }],
  ];

function modelFile(family: keyof typeof TINY_ARCHITECTURES, type: (typeof FILES)[number][1], sizes: object): string {
  const path = join(directory, `${family}.${type}.gguf`);
  if (existsSync(path)) return path;
  const plain = join(directory, `${family}.plain.gguf`);
  const architecture: Architecture = { ...TINY_ARCHITECTURES[family], ...sizes };
  writeTinyGguf(plain, architecture, { isTied: family !== 'qwen2' });
  quantizeModel(plain, path, type, 1);
  return path;
}

test.each(FILES)('%s in %s: prompts and steps, with an adapter and without', (family, type, sizes) => {
  const path = modelFile(family, type, sizes);
  using file = GgufFile.open(path);
  const architecture = readArchitecture(file);
  const adapterPath = join(directory, `adapter-${family}.gguf`);
  const random = randomSource(3);
  writeAdapter(adapterPath, architecture, { rank: 4, alpha: 8 }, () => 0.1 * random());
  const [resident, streamed] = (['resident', 'streamed'] as const).map((weights) => {
    const decoder = PagedDecoder.open(path, { ...SIZES, weights });
    const logits = logitsOf(decoder, adapterPath);
    decoder.close();
    return logits;
  });
  expect(resident).toHaveLength(6 + 1 + 2 + 3 + 4 + 7 + 8 + 12 + 15);
  expect(resident!.every((row) => row.every(Number.isFinite))).toBe(true);
  for (const [i, row] of streamed!.entries()) expect(row, `row ${i}`).toEqual(resident![i]);
  // Without few-row kernels, as in a deterministic trainer.
  const matrices = new StreamedMatrices(GgufFile.open(path), architecture);
  const plain = new PagedDecoder(matrices, { ...SIZES, contextLength: SIZES.capacityTokens, ownsWeights: true });
  expect(plain.packedBatches).toBe('none');
  for (const [i, row] of logitsOf(plain, adapterPath).entries()) expect(row, `row ${i}`).toEqual(resident![i]);
  plain.close();
});

test.each(
  [0.75, 1].flatMap((residualScale) =>
    (['resident', 'streamed'] as const).map((weights) => [residualScale, weights] as const),
  ),
)(
  'a feed-forward next to experts, outputs times %d, %s: rows with an adapter have the same bits without others',
  (residualScale, weights) => {
    const path = join(directory, `granitemoe.${residualScale}.gguf`);
    const architecture = { ...TINY_ARCHITECTURES.granitemoe, residualScale };
    writeTinyGguf(path, architecture);
    const adapterPath = join(directory, 'adapter-of-all.gguf');
    const random = randomSource(3);
    writeAdapter(adapterPath, architecture, { rank: 4, alpha: 8 }, () => 0.1 * random());
    const decoder = PagedDecoder.open(path, { ...SIZES, weights });
    const adapter = decoder.loadAdapter(adapterPath);
    const logitsWith = (others: number): Float32Array[] => {
      const batch = new DecoderBatch<DecoderAdapter>(SIZES.batchTokens);
      for (let position = 0; position < 3; position++)
        batch.add({ token: 31 * position, position, sequence: 0, wantsLogits: true }, adapter);
      for (let position = 0; position < others; position++)
        batch.add({ token: 7, position, sequence: 1, wantsLogits: true });
      const rows = decoder.run(batch);
      for (const sequence of [0, 1]) decoder.forget(sequence, 0);
      return [0, 1, 2].map((row) => rows.row(row).slice());
    };
    const next = logitsWith(2);
    expect(logitsWith(0)).toEqual(next);
    expect(logitsWith(0)).toEqual(next);
    decoder.close();
  },
);

test('a streamed decoder closes its file, also if it cannot be opened', () => {
  const path = modelFile('llama', 'q4_0', WIDE);
  const numOpen = () =>
    readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === path;
      } catch {
        return false;
      }
    }).length;
  for (let i = 0; i < 3; i++) {
    const decoder = PagedDecoder.open(path, { ...SIZES, weights: 'streamed' });
    expect(numOpen()).toBe(1);
    decoder.close();
    expect(numOpen()).toBe(0);
  }
  expect(() => PagedDecoder.open(path, { ...SIZES, capacityTokens: 2 ** 31, weights: 'streamed' })).toThrow(
    'the maximum is',
  );
  expect(numOpen()).toBe(0);
});
