/** A policy in bf16 against the same in single precision, on the default model. */
import { Bf16Rounding, GgufFile, openBf16Library } from '@trainyard/native';
import { type Architecture, LINEAR_NAMES, readWeights, readWeightsExceptMatrices } from '@trainyard/transformer';
import { randomSource } from '@trainyard/transformer/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { testModel } from '../../../../tests/support/model.ts';
import type { PackedRow } from '../model/policy-model.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';
import { packTrie } from '../testing/pack-trie.ts';
import { Bf16BlockMatrices } from './bf16-matrices.ts';
import { roundToBf16 } from './bf16-rounding.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';

const LORA = { rank: 8, alpha: 16, targets: LINEAR_NAMES, initSeed: 3 };
const library = openBf16Library(process.env['TRAINYARD_TEST_BF16_LIBRARY']!, 1);
let architecture: Architecture;
let single: OrtPolicyModel;
let rounded: OrtPolicyModel;
let matrices: Bf16BlockMatrices;
let row: PackedRow;
beforeAll(() => {
  using file = GgufFile.open(testModel().base);
  architecture = trainableArchitecture(file);
  matrices = new Bf16BlockMatrices(file, architecture, library);
  const options = { lora: LORA, numThreads: 2 };
  single = new OrtPolicyModel(architecture, readWeights(file, architecture, LORA), options);
  const others = readWeightsExceptMatrices(file, architecture);
  rounded = new OrtPolicyModel(architecture, others, { ...options, bf16: matrices });
  // Replies after one prompt, and a separate row: sizes that all products must pad.
  const random = randomSource(7);
  const tokens = (count: number) => Array.from({ length: count }, () => 100 + Math.floor(40_000 * Math.abs(random())));
  const prompt = tokens(75);
  const replies = Array.from({ length: 4 }, () => ({ tokenIds: [...prompt, ...tokens(50)], numPrompt: prompt.length }));
  row = packTrie([replies, [{ tokenIds: tokens(90), numPrompt: 3 }]]);
});
afterAll(() => {
  single.close();
  rounded.close();
  matrices.close();
});

/** Equally in both policies. */
function setAdapters(scale: number): void {
  for (const policy of [single, rounded]) {
    const random = randomSource(9);
    for (const { half, value } of policy.lora.tensors)
      if (half === 'b') for (let i = 0; i < value.length; i++) value[i] = scale * random();
  }
}

async function pass(policy: OrtPolicyModel, { entropyWeight = 0 } = {}) {
  for (const { gradient } of policy.lora.tensors) gradient.fill(0);
  const { logprobs, entropies } = await policy.forward(row, {
    keepForBackward: true,
    keepForEntropy: entropyWeight !== 0,
  });
  const ones = new Float32Array(row.targets.length).fill(1 / row.targets.length);
  const entropyGradient = ones.map((value) => entropyWeight * value);
  await policy.backward(ones, entropyWeight === 0 ? {} : { entropyGradient });
  const gradients = policy.lora.tensors.map(({ gradient }) => gradient.slice());
  return { logprobs: logprobs.slice(), entropies: entropies.slice(), gradients };
}

const meanDifference = (one: Float32Array, other: Float32Array) =>
  one.reduce((sum, value, i) => sum + Math.abs(value - other[i]!), 0) / one.length;

function cosine(one: readonly Float32Array[], other: readonly Float32Array[]): number {
  const dot = (a: readonly Float32Array[], b: readonly Float32Array[]) =>
    a.reduce((sum, values, i) => values.reduce((total, value, j) => total + value * b[i]![j]!, sum), 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
}

test('values are rounded as products round them', () => {
  const values = Float32Array.from({ length: 64 }, (_, i) => (i - 32) * 1.00390625 + 2 ** -9 * (i % 3));
  const into = new Uint16Array(new ArrayBuffer(2 * values.length));
  const rounding = new Bf16Rounding(library, values.length);
  rounding.run(values, into, 1);
  const bits = new Uint32Array(roundToBf16(values, new Float32Array(values.length)).buffer);
  expect(Array.from(bits, (value) => value >>> 16)).toEqual([...into]);
  expect(bits.every((value) => (value & 0xffff) === 0)).toBe(true);
  rounding.close();
});

test.each([
  ['log-probabilities', 0],
  ['log-probabilities and entropies', 0.3],
])('%s and gradients are single precision’s but for the rounding of bf16', async (_, entropyWeight) => {
  setAdapters(0.02);
  const [expected, found] = [await pass(single, { entropyWeight }), await pass(rounded, { entropyWeight })];
  const difference = meanDifference(expected.logprobs, found.logprobs);
  const likeness = cosine(expected.gradients, found.gradients);
  console.log(`log-probabilities differ by ${difference} nats in the mean, gradients have the cosine ${likeness}`);
  // A smaller difference would mean that nothing was rounded.
  expect(difference).toBeGreaterThan(1e-3);
  expect(difference).toBeLessThan(0.05);
  expect(meanDifference(expected.entropies, found.entropies)).toBeLessThan(0.05);
  expect(likeness).toBeGreaterThan(0.995);
  const worst = Math.min(...expected.gradients.map((gradient, i) => cosine([gradient], [found.gradients[i]!])));
  console.log(`the least cosine of one matrix is ${worst}`);
  expect(worst).toBeGreaterThan(0.9);
});

test('the same pass has the same bits, and an adapter of zeros those of none', async () => {
  setAdapters(0.02);
  const [one, again] = [await pass(rounded), await pass(rounded)];
  expect(again).toEqual(one);
  const { logprobs: without } = await rounded.forward(row, { withoutAdapter: true });
  setAdapters(0);
  expect((await rounded.forward(row)).logprobs).toEqual(without);
  expect(without).not.toEqual(one.logprobs);
});

test('gradients are accurate: a step along them raises the log-probabilities by the predicted amount', async () => {
  setAdapters(0.02);
  const before = await pass(rounded);
  const norm2 = before.gradients.reduce(
    (sum, values) => values.reduce((total, value) => total + value * value, sum),
    0,
  );
  // Far enough to show in bf16.
  const length = 0.05 / norm2;
  rounded.lora.tensors.forEach(({ value }, i) =>
    before.gradients[i]!.forEach((slope, j) => (value[j]! += length * slope)),
  );
  const after = await rounded.forward(row);
  const mean = (values: Float32Array) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const rise = mean(after.logprobs) - mean(before.logprobs);
  console.log(`the mean log-probability rises by ${rise}, the gradient predicts 0.05`);
  expect(rise).toBeGreaterThan(0.04);
  expect(rise).toBeLessThan(0.06);
});
