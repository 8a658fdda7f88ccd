import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaAdapter, LlamaContext, LlamaModel, writeGguf } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { testModel } from '../../../../tests/support/model.ts';
import { ggufAdapterTensors } from '../model/adapter-tensors.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';
import type { PackedRow } from '../model/policy-model.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';

const NUM_TOKENS = 200;
const llama = LlamaModel.load(testModel().f16);
const policy = await OrtPolicyModel.load({ modelPath: testModel().f16, numThreads: 1 });
const directory = mkdtempSync(join(tmpdir(), 'trainyard-adapter-'));
afterAll(() => {
  policy.close();
  llama.close();
  rmSync(directory, { recursive: true });
});

/** Every token except the first, [T - 1]. */
function llamaLogprobs(tokenIds: Int32Array, adapterPath?: string): Float64Array {
  using context = new LlamaContext(llama, { contextTokens: 512, maxSequences: 1, batchTokens: 256, numThreads: 1 });
  if (adapterPath !== undefined) context.setAdapter(LlamaAdapter.load(llama, adapterPath));
  tokenIds.subarray(0, -1).forEach((id, position) => context.batch.add(id, position, 0, true));
  context.decode();
  const logits = context.logits();
  const V = llama.vocabSize;
  return Float64Array.from({ length: tokenIds.length - 1 }, (_, i) => {
    const row = logits.subarray(i * V, (i + 1) * V);
    const max = row.reduce((largest, value) => Math.max(largest, value), -Infinity);
    return row[tokenIds[i + 1]!]! - max - Math.log(row.reduce((sum, value) => sum + Math.exp(value - max), 0));
  });
}

/** Sampled at temperature 1. */
function sampledTokens(): Int32Array {
  const random = randomSource(8);
  const tokens = [
    ...llama.tokenize('Once upon a time there was a railway yard at the foot of a hill.', {
      addSpecial: true,
      parseSpecial: false,
    }),
  ];
  using context = new LlamaContext(llama, { contextTokens: 512, maxSequences: 1, batchTokens: 256, numThreads: 1 });
  tokens.forEach((id, position) => context.batch.add(id, position, 0, position === tokens.length - 1));
  while (tokens.length < NUM_TOKENS) {
    context.decode();
    context.batch.clear();
    const logits = context.logits();
    // The largest logit + Gumbel noise is a sample of the softmax.
    let best = 0;
    let bestScore = -Infinity;
    logits.forEach((logit, id) => {
      const score = logit - Math.log(-Math.log((random() + 1) / 2));
      if (score > bestScore) [best, bestScore] = [id, score];
    });
    tokens.push(best);
    context.batch.add(best, tokens.length - 1, 0, true);
  }
  return Int32Array.from(tokens);
}

function chain(tokenIds: Int32Array): PackedRow {
  const indices = Int32Array.from(tokenIds.keys());
  return {
    tokenIds,
    positions: indices,
    parents: indices.map((i) => i - 1),
    sources: indices.subarray(0, -1),
    targets: tokenIds.subarray(1),
  };
}

function gap(a: Float32Array, b: Float64Array): { mean: number; max: number } {
  expect(a.length).toBe(b.length);
  const differences = Array.from(a, (value, i) => Math.abs(value - b[i]!));
  return { mean: differences.reduce((sum, x) => sum + x, 0) / differences.length, max: Math.max(...differences) };
}

const tokenIds = sampledTokens();

test('log-probabilities equal those of llama.cpp on the same file', async () => {
  const { logprobs, entropies } = await policy.forward(chain(tokenIds));
  const { mean, max } = gap(logprobs, llamaLogprobs(tokenIds));
  console.log(`${logprobs.length} tokens: mean |Δlogprob| ${mean.toFixed(5)}, max ${max.toFixed(5)}`);
  expect(mean).toBeLessThan(0.01);
  expect(entropies.every((entropy) => entropy >= 0 && entropy <= Math.log(llama.vocabSize))).toBe(true);
});

test('with an adapter written for llama.cpp both sides compute the same policy', async () => {
  const { logprobs: base } = await policy.forward(chain(tokenIds), { withoutAdapter: true });
  randomizeAdapter(policy.lora, randomSource(2));
  for (const tensor of policy.lora.tensors)
    for (let i = 0; i < tensor.value.length; i++) tensor.value[i]! *= tensor.half === 'a' ? 0.3 : 0.2;
  const path = join(directory, 'adapter.gguf');
  const metadata = {
    'general.type': 'adapter',
    'general.architecture': 'llama',
    'adapter.type': 'lora',
    'adapter.lora.alpha': policy.lora.config.alpha,
  };
  writeGguf(path, metadata, ggufAdapterTensors(policy.lora, policy.architecture));
  const { logprobs } = await policy.forward(chain(tokenIds));
  const moved = gap(logprobs, Float64Array.from(base));
  const { mean, max } = gap(logprobs, llamaLogprobs(tokenIds, path));
  console.log(
    `adapter moves logprobs by ${moved.mean.toFixed(3)} on average; then mean |Δlogprob| ${mean.toFixed(5)}, max ${max.toFixed(5)}`,
  );
  expect(moved.mean).toBeGreaterThan(0.1);
  expect(mean).toBeLessThan(0.01);
});

test('recomputing layers of the real model gives the gradients of keeping them', async () => {
  const row = chain(tokenIds.subarray(0, 60));
  const weights = new Float32Array(row.targets.length).fill(-1 / row.targets.length);
  const gradients = async (model: OrtPolicyModel) => {
    for (const tensor of model.lora.tensors) tensor.gradient.fill(0);
    await model.forward(row, { keepForBackward: true });
    await model.backward(weights);
    return model.lora.tensors.map((tensor) => tensor.gradient);
  };
  const kept = await gradients(policy);
  const recomputing = await OrtPolicyModel.load({ modelPath: testModel().f16, memoryBudgetBytes: 0, numThreads: 1 });
  recomputing.lora.tensors.forEach((tensor, i) => tensor.value.set(policy.lora.tensors[i]!.value));
  const recomputed = await gradients(recomputing);
  recomputing.close();
  let worst = 0;
  kept.forEach((gradient, i) =>
    gradient.forEach((value, j) => (worst = Math.max(worst, Math.abs(value - recomputed[i]![j]!)))),
  );
  console.log(`max gradient difference ${worst.toExponential(1)}`);
  expect(kept.some((gradient) => gradient.some((value) => Math.abs(value) > 1e-3))).toBe(true);
  expect(worst).toBeLessThan(1e-5);
});
