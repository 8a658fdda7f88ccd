import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile } from '@trainyard/native';
import { type Architecture, linearNames, readArchitecture, readWeights } from '@trainyard/transformer';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { predictTraining } from '../learner/predict-training.ts';
import { packTrie } from '../testing/pack-trie.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';
import { memoryBudget, trainingMemory } from './training-memory.ts';

const directory = mkdtempSync(join(tmpdir(), 'training-memory-'));
afterAll(() => rmSync(directory, { recursive: true }));

const ARCHITECTURE: Architecture = {
  ...TINY_ARCHITECTURES.llama,
  hiddenSize: 320,
  numHeads: 10,
  numKvHeads: 5,
  headSize: 32,
  feedForwardSize: 576,
  numLayers: 3,
};
const MIXTURE: Architecture = {
  ...ARCHITECTURE,
  name: 'qwen3moe',
  hasInterleavedHeads: false,
  queryKeyNorm: 'head',
  experts: {
    count: 6,
    used: 2,
    feedForwardSize: 192,
    normalisesShares: true,
    hasBiases: false,
    hasSharedFeedForward: false,
    denseLayers: [1],
  },
};
const CONVOLUTIONS: Architecture = {
  ...ARCHITECTURE,
  name: 'lfm2',
  hasInterleavedHeads: false,
  queryKeyNorm: 'head',
  numLayers: 4,
  convolution: { size: 3, layers: [0, 2, 3] },
};
const DELTA_NETS: Architecture = {
  ...ARCHITECTURE,
  name: 'qwen35',
  hasInterleavedHeads: false,
  hasOutputGate: true,
  queryKeyNorm: 'head',
  numLayers: 4,
  deltaNet: { numKeyHeads: 2, numValueHeads: 4, keySize: 32, valueSize: 32, convolutionSize: 4, layers: [0, 1, 3] },
};
const NUM_TOKENS = 240;

test.each([
  ['resident', ARCHITECTURE],
  ['streamed', ARCHITECTURE],
  ['resident', MIXTURE],
  ['streamed', MIXTURE],
  ['resident', CONVOLUTIONS],
  ['streamed', DELTA_NETS],
] as const)('with %s weights the memory of a row is predicted within 15 percent', async (weights, architecture) => {
  const modelPath = join(directory, `${architecture.name}.${weights}.gguf`);
  writeTinyGguf(modelPath, architecture, { isTied: true });
  const tokenIds = Array.from({ length: NUM_TOKENS }, (_, i) => (7 * i) % 250);
  // A trained token has no place of its own at the end of a row.
  const row = packTrie([[{ tokenIds: [...tokenIds, 3], numPrompt: 200 }]]);
  for (const memoryBudgetBytes of [2 ** 31, 4_000_000]) {
    const lora = { rank: 8, alpha: 16, targets: linearNames(architecture), initSeed: 1 };
    const model = await OrtPolicyModel.load({ modelPath, weights, lora, numThreads: 2, memoryBudgetBytes });
    await model.forward(row, { keepForBackward: true });
    const found = model.activationBytes;
    model.close();
    const options = { weights, isTied: true, numTokens: NUM_TOKENS, numThreads: 2, memoryBudgetBytes, lora };
    const { rowBytes, weightBytes } = trainingMemory(architecture, options);
    console.log(`${weights}, budget ${memoryBudgetBytes}: ${found} bytes, predicted ${rowBytes}`);
    expect(Math.abs(rowBytes / found - 1)).toBeLessThan(0.15);
    const routerBytes = architecture === MIXTURE ? 2 * 4 * 6 * 320 : 0;
    expect(weightBytes === routerBytes).toBe(weights === 'streamed');
  }
});

test('a small machine keeps fewer activations', () => {
  const rowBytesOn = (gigabytes: number) =>
    trainingMemory(
      { ...ARCHITECTURE, numLayers: 30, feedForwardSize: 3072 },
      {
        weights: 'streamed',
        isTied: true,
        numTokens: 4096,
        numThreads: 2,
        memoryBudgetBytes: memoryBudget(gigabytes * 2 ** 30),
      },
    ).rowBytes;
  expect([3, 8, 16, 64].map((gigabytes) => memoryBudget(gigabytes * 2 ** 30) / 2 ** 30)).toEqual([0.375, 1, 2, 2]);
  expect(rowBytesOn(16) - rowBytesOn(8)).toBeGreaterThan(0.9 * 2 ** 30);
});

test('nothing is predicted of a file that cannot be read or trained', () => {
  const path = join(directory, 'odd.gguf');
  writeFileSync(path, 'no model');
  const options = { weights: 'auto', numThreads: 2, numTokens: 100 } as const;
  expect(predictTraining(path, options)).toBeNull();
  expect(predictTraining(join(directory, 'absent.gguf'), options)).toBeNull();
});

test('the lanes share the biases of experts', () => {
  const modelPath = join(directory, 'biases.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURES['gpt-oss']);
  using file = GgufFile.open(modelPath);
  for (const { experts } of readWeights(file, readArchitecture(file)).blocks)
    for (const { buffer } of Object.values(experts!.biases!)) expect(buffer).toBeInstanceOf(SharedArrayBuffer);
});
