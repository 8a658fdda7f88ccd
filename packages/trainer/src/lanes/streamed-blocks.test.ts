import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { quantizeModel } from '@trainyard/native';
import {
  type Architecture,
  CONVOLUTION_LINEAR_NAMES,
  DELTA_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  LINEAR_NAMES,
  type LinearName,
  type WeightsMode,
} from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import type { PackedRow } from '../model/policy-model.ts';
import { packTrie } from '../testing/pack-trie.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';

const directory = mkdtempSync(join(tmpdir(), 'streamed-'));
afterAll(() => rmSync(directory, { recursive: true }));

const prompt = [3, 9, 14, 20, 31, 7, 8, 9];
const ROW = packTrie([
  [
    { tokenIds: [...prompt, 40, 41, 42, 43], numPrompt: prompt.length },
    { tokenIds: [...prompt, 40, 51, 52], numPrompt: prompt.length },
    { tokenIds: [...prompt, 61], numPrompt: prompt.length },
  ],
]);

interface Setting {
  readonly numThreads: number;
  readonly memoryBudgetBytes?: number;
  readonly targets?: readonly LinearName[];
}

/** Log-probabilities, entropies and all gradients of two passes, as one list. */
async function computed(modelPath: string, weights: WeightsMode, setting: Setting): Promise<number[]> {
  const { targets = LINEAR_NAMES, ...options } = setting;
  const model = await OrtPolicyModel.load({
    ...options,
    modelPath,
    weights,
    lora: { rank: 3, alpha: 6, targets, initSeed: 1 },
  });
  try {
    randomizeAdapter(model.lora, randomSource(4));
    const base = await model.forward(ROW, { withoutAdapter: true });
    const all = [...base.logprobs];
    for (let pass = 0; pass < 2; pass++) all.push(...(await passOf(model, ROW)));
    return all;
  } finally {
    model.close();
  }
}

async function passOf(model: OrtPolicyModel, row: PackedRow): Promise<number[]> {
  const { logprobs, entropies } = await model.forward(row, { keepForBackward: true });
  const values = [...logprobs, ...entropies];
  await model.backward(Float32Array.from(logprobs, (_, i) => 1 - 0.3 * i));
  return [...values, ...model.lora.tensors.flatMap(({ gradient }) => [...gradient])];
}

/** Linear layers of blocks with experts. */
const ATTENTION = ['q', 'k', 'v', 'o'] as const;

/** A model whose rows are whole blocks of the type. */
function modelFile(family: keyof typeof TINY_ARCHITECTURES, type: 'f32' | 'f16' | 'bf16' | 'q4_0' | 'q8_0'): string {
  const path = join(directory, `${family}.${type}.gguf`);
  if (existsSync(path)) return path;
  const plain = join(directory, `${family}.plain.gguf`);
  const architecture: Architecture = { ...TINY_ARCHITECTURES[family], numLayers: 3 };
  writeTinyGguf(plain, architecture, { isTied: family === 'qwen3' });
  quantizeModel(plain, path, type, 1);
  return path;
}

test.each([
  ['llama', 'q4_0', { numThreads: 2 }],
  ['llama', 'f16', { numThreads: 3, memoryBudgetBytes: 0 }],
  ['qwen2', 'q8_0', { numThreads: 1, memoryBudgetBytes: 0 }],
  ['qwen3', 'bf16', { numThreads: 2, targets: ['o', 'down'] }],
  ['gemma3', 'f32', { numThreads: 2, targets: ['v', 'gate'] }],
  ['granite', 'q8_0', { numThreads: 2 }],
  ['phi4', 'q4_0', { numThreads: 2, targets: FUSED_LINEAR_NAMES }],
  ['lfm2', 'q4_0', { numThreads: 3, memoryBudgetBytes: 0, targets: CONVOLUTION_LINEAR_NAMES }],
  ['qwen35', 'q4_0', { numThreads: 3, memoryBudgetBytes: 0, targets: DELTA_LINEAR_NAMES }],
  ['qwen3moe', 'q8_0', { numThreads: 2, targets: ATTENTION }],
  ['qwen3moe', 'f16', { numThreads: 3, memoryBudgetBytes: 0, targets: ATTENTION }],
  ['granitemoe', 'q8_0', { numThreads: 2, memoryBudgetBytes: 0, targets: ATTENTION }],
  ['gpt-oss', 'bf16', { numThreads: 2, memoryBudgetBytes: 0, targets: ATTENTION }],
] as const)('streamed weights give the bits of resident ones: %s in %s, %o', async (family, type, setting) => {
  const path = modelFile(family, type);
  const [resident, streamed] = [await computed(path, 'resident', setting), await computed(path, 'streamed', setting)];
  expect(resident.length).toBeGreaterThan(1000);
  expect(resident.every(Number.isFinite)).toBe(true);
  const different = [...streamed.keys()].filter((i) => !Object.is(streamed[i], resident[i]));
  expect({ different: different.length, first: different[0] ?? null, of: resident.length }).toEqual({
    different: 0,
    first: null,
    of: resident.length,
  });
});

test('a streamed file that becomes shorter fails the pass with its path, and is closed with the model', async () => {
  const path = join(directory, 'cut.gguf');
  quantizeModel(modelFile('llama', 'f32'), path, 'q8_0', 1);
  const model = await OrtPolicyModel.load({ modelPath: path, weights: 'streamed', numThreads: 2 });
  await model.forward(ROW);
  truncateSync(path, statSync(path).size - 2000);
  await expect(model.forward(ROW)).rejects.toThrow('cut.gguf ends at offset');
  model.close();
  const opened = readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      return false;
    }
  });
  expect(opened).toEqual([]);
});
