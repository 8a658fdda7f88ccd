import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, LlamaContext, LlamaModel, writeGguf } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import { type Architecture, readWeights, TRAINABLE_ARCHITECTURES } from '@trainyard/transformer';
import {
  architectureMetadata,
  LLAMA_CPP_ARCHITECTURES,
  randomSource,
  TINY_ARCHITECTURE,
  TINY_ARCHITECTURES,
  plainLogprobs,
  tabulatedGelu,
  tinyTensors,
} from '@trainyard/transformer/testing';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { trainableArchitecture } from './trainable-architecture.ts';

const directory = mkdtempSync(join(tmpdir(), 'trainyard-architecture-'));
afterAll(() => rmSync(directory, { recursive: true }));

type Tensors = Parameters<typeof writeGguf>[2];
type Metadata = Parameters<typeof writeGguf>[1];

const metadataOf = (a: Architecture) => ({ ...architectureMetadata(a), 'tokenizer.ggml.model': 'none' });

const QWEN2 = { name: 'qwen2', hasAttentionBias: true, hasInterleavedHeads: false };
const QWEN3 = { name: 'qwen3', queryKeyNorm: 'head', hasInterleavedHeads: false } as const;

interface Case {
  readonly differences?: Partial<Architecture>;
  readonly metadata?: Record<string, Metadata[string]>;
  readonly tensors?: readonly Tensors[number][];
  readonly isTied?: boolean;
}

const CASES: readonly [string, Case][] = [
  ['llama', {}],
  ['llama with a tied head', { isTied: true }],
  ['llama with one key head', { differences: { numKvHeads: 1 } }],
  ['llama with a key head for each query head', { differences: { numKvHeads: 4 } }],
  ['llama with wide heads', { differences: { headSize: 16 } }],
  ['llama with biases', { differences: { hasAttentionBias: true } }],
  ['llama with another rope base', { differences: { ropeBase: 500_000 } }],
  [
    'llama with linear rope scaling',
    {
      differences: { ropeScale: 4 },
      metadata: { 'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': 4 },
    },
  ],
  [
    'llama with only a rope factor, which is linear',
    { differences: { ropeScale: 2 }, metadata: { 'llama.rope.scaling.factor': 2 } },
  ],
  [
    'llama with a rope factor that is switched off',
    { metadata: { 'llama.rope.scaling.type': 'none', 'llama.rope.scaling.factor': 8 } },
  ],
  [
    'llama 3.1 rope factors',
    {
      metadata: { 'llama.rope.scaling.original_context_length': { u32: 64 } },
      tensors: [{ name: 'rope_freqs.weight', dims: [4], data: Float32Array.of(1, 1.5, 5, 8) }],
    },
  ],
  ['qwen2', { differences: QWEN2 }],
  ['qwen2 with a tied head', { differences: QWEN2, isTied: true }],
  ['qwen3', { differences: QWEN3 }],
  [
    'qwen3 with a tied head, wide heads and one key head',
    { differences: { ...QWEN3, headSize: 16, numKvHeads: 1 }, isTied: true },
  ],
  // The first three are above.
  ...Object.entries(LLAMA_CPP_ARCHITECTURES)
    .slice(3)
    .map(([name, architecture]): [string, Case] => [name, { differences: { ...architecture, vocabSize: 48 } }]),
  [
    'granite without factors, which is llama',
    { differences: { name: 'granite' }, metadata: { 'granite.attention.scale': 0 } },
  ],
  [
    'granitemoe without a shared feed-forward',
    {
      differences: {
        ...TINY_ARCHITECTURES.granitemoe,
        vocabSize: 48,
        feedForwardSize: 32,
        experts: { ...TINY_ARCHITECTURES.granitemoe.experts!, hasSharedFeedForward: false },
      },
    },
  ],
  [
    'granite without rope',
    { differences: { ...TINY_ARCHITECTURES.granite, vocabSize: 48, unrotatedPeriod: 1 }, isTied: true },
  ],
];

test.each(CASES)(
  '%s: a random model file gives the log-probabilities llama.cpp gives',
  async (name, { differences, metadata, tensors = [], isTied }) => {
    const architecture = { ...TINY_ARCHITECTURE, ...differences };
    const path = join(directory, `${name}.gguf`);
    writeGguf(path, { ...metadataOf(architecture), ...metadata }, [...tinyTensors(architecture, isTied), ...tensors]);
    const file = GgufFile.open(path);
    expect(trainableArchitecture(file)).toEqual({
      ...architecture,
      rmsEpsilon: expect.closeTo(architecture.rmsEpsilon, 10),
    });
    file.close();

    const next = randomSource(4);
    const V = architecture.vocabSize;
    const tokenIds = Int32Array.from({ length: 60 }, () => Math.floor(((next() + 1) / 2) * V));
    const indices = Int32Array.from(tokenIds.keys());
    const model = await OrtPolicyModel.load({ modelPath: path, numThreads: 1 });
    const { logprobs } = await model.forward({
      tokenIds,
      positions: indices,
      parents: indices.map((i) => i - 1),
      sources: indices.subarray(0, -1),
      targets: tokenIds.subarray(1),
    });
    model.close();

    using llama = LlamaModel.load(path);
    using context = new LlamaContext(llama, {
      contextTokens: 128,
      maxSequences: 1,
      batchTokens: 64,
      numThreads: 1,
      cachePrecision: 'f32',
    });
    tokenIds.subarray(0, -1).forEach((id, position) => context.batch.add(id, position, 0, true));
    context.decode();
    const logits = context.logits();
    using own = GgufFile.open(path);
    const weights = readWeights(own, architecture);
    const twin = plainLogprobs(architecture, weights, [...tokenIds]);
    const ids = [...tokenIds];
    const ofLlama =
      architecture.activation === 'gelu' ? plainLogprobs(architecture, weights, ids, tabulatedGelu) : twin;
    let [worst, fromTwin] = [0, 0];
    logprobs.forEach((logprob, i) => {
      fromTwin = Math.max(fromTwin, Math.abs(logprob - twin[i]![tokenIds[i + 1]!]!));
      const row = Array.from(logits.subarray(i * V, (i + 1) * V));
      const max = Math.max(...row);
      const expected =
        row[tokenIds[i + 1]!]! - max - Math.log(row.reduce((sum, value) => sum + Math.exp(value - max), 0));
      // llama.cpp rounds GELU and its argument to half precision: the same rounding is added here.
      const rounding = ofLlama[i]![tokenIds[i + 1]!]! - twin[i]![tokenIds[i + 1]!]!;
      worst = Math.max(worst, Math.abs(logprob + rounding - expected));
    });
    console.log(`${name}: max |Δlogprob| ${worst.toExponential(1)}, from the twin ${fromTwin.toExponential(1)}`);
    expect(worst).toBeLessThan(1e-4);
    expect(fromTwin).toBeLessThan(2e-5);
  },
);

test.each([
  ['gemma2', {}, [], `architecture "gemma2" cannot be trained; supported: ${TRAINABLE_ARCHITECTURES.join(', ')}`],
  ['gemma3', {}, [], 'the model file has no blk.0.post_attention_norm.weight'],
  ['gemma3', { 'gemma3.final_logit_softcapping': 30 }, [], 'sets gemma3.final_logit_softcapping to 30'],
  [
    'gemma3',
    { 'gemma3.attention.sliding_window': -4 },
    [],
    'the sliding window is -4, expected a positive whole number',
  ],
  ['llama', {}, ['blk.0.post_ffw_norm.weight'], 'blk.0.post_ffw_norm.weight'],
  ['llama', { 'llama.residual_scale': 0.5 }, [], 'sets llama.residual_scale to 0.5; training supports 0 or 1 only'],
  ['granite', { 'granite.residual_scale': -1 }, [], 'granite.residual_scale is -1, expected a positive number'],
  ['llama', { 'llama.rope.scaling.type': 'yarn' }, [], 'yarn needs a positive rope.scaling.factor, got nothing'],
  [
    'llama',
    { 'llama.rope.scaling.type': 'longrope' },
    [],
    'rope scaling "longrope" is not supported; supported: none, linear, yarn',
  ],
  [
    'qwen2',
    { 'qwen2.rope.scaling.yarn_beta_fast': 1 },
    [],
    'sets "qwen2.rope.scaling.yarn_beta_fast" to 1, which training does not support',
  ],
  ['llama', { 'llama.rope.scaling.attn_factor': 1.5 }, [], 'rope.scaling.attn_factor to 1.5; training supports 1 only'],
  ['llama', { 'llama.rope.dimension_count': { u32: 4 } }, [], 'rope over 4 of 8 dimensions of a head is not supported'],
  ['llama', { 'llama.attention.value_length': { u32: 4 } }, [], 'values of 4 dimensions with keys of 8'],
  [
    'gemma3',
    {
      'gemma3.attention.sliding_window': { u32: 8 },
      'gemma3.attention.sliding_window_pattern': { array: { type: 'bool', values: [false, true] } },
    },
    [],
    'layers with a sliding window in another order',
  ],
  ['qwen3', { 'qwen3.attention.sliding_window': { u32: 512 } }, [], 'sets qwen3.attention.sliding_window to 512'],
  ['llama', { 'llama.expert_count': { u32: 8 } }, [], 'sets llama.expert_count to 8; training supports 0 only'],
  ['llama', { 'llama.attn_logit_softcapping': 50 }, [], 'sets llama.attn_logit_softcapping to 50'],
  ['llama', { 'llama.final_logit_softcapping': 30 }, [], 'sets llama.final_logit_softcapping to 30'],
  ['llama', { 'llama.attention.causal': false }, [], 'sets llama.attention.causal to false'],
  [
    'llama',
    { 'llama.attention.head_count_kv': { array: { type: 'u32', values: [1, 2] } } },
    [],
    'llama.attention.head_count_kv must be one number for all layers, got [1,2]',
  ],
  ['llama', {}, ['blk.0.ffn_gate_exps.weight'], 'blk.0.ffn_gate_exps.weight'],
  ['llama', { 'llama.of_tomorrow': 'x'.repeat(100_000) }, [], `"llama.of_tomorrow" to "${'x'.repeat(199)}…, which`],
  ['llama', {}, ['output.bias'], 'output.bias'],
  ['llama', {}, ['rope_freqs.weight'], 'rope_freqs.weight has 1 factors, rope over 8 dimensions needs 4'],
  ['phi3', {}, ['blk.0.attn_q.weight'], 'this phi3 model has the tensor "blk.0.attn_q.weight"'],
  ['phi3', { 'phi3.rope.dimension_count': { u32: 3 } }, [], 'rope over 3 of 8 dimensions of a head is not supported'],
  ['phi3', {}, ['rope_factors_long.weight'], 'rope_factors_long.weight has 1 factors, rope over 8 dimensions needs 4'],
  ['llama', {}, ['rope_factors_long.weight'], 'rope_factors_long.weight'],
  ['llama', {}, ['blk.1.attn_q.bias'], 'the model file has no blk.0.attn_q.bias'],
  ['qwen3', {}, ['blk.0.attn_q_norm.weight'], 'the model file has no blk.0.attn_k_norm.weight'],
  [
    'lfm2',
    { 'lfm2.attention.head_count_kv': { array: { type: 'i32', values: [0, 2, 1, 0] } } },
    [],
    'lfm2.attention.head_count_kv must be one positive whole number, or 0, for each of 4 layers, got [0,2,1,0]',
  ],
  ['lfm2', { 'lfm2.attention.head_count_kv': { u32: 2 } }, [], 'the model file has no blk.0.attn_q_norm.weight'],
  [
    'lfm2',
    { 'lfm2.shortconv.l_cache': { u32: 4 } },
    [],
    'blk.0.shortconv.conv.weight is [3,32], the model needs [4,32]',
  ],
  ['lfm2', { 'lfm2.shortconv.l_cache': { u32: 65 } }, [], 'lfm2.shortconv.l_cache is 65, expected at most 64 tokens'],
  ['lfm2', { 'lfm2.attention.sliding_window': { u32: 8 } }, [], 'lfm2.attention.sliding_window to 8'],
  ['lfm2', {}, ['blk.0.shortconv.conv.bias'], 'blk.0.shortconv.conv.bias'],
  ['qwen35', { 'qwen35.ssm.group_count': { u32: 3 } }, [], '4 value heads cannot share 3 key heads evenly'],
  [
    'qwen35',
    { 'qwen35.ssm.inner_size': { u32: 64 } },
    [],
    'qwen35.ssm.inner_size is 64: 4 value heads of 8, the size of a key head, are supported',
  ],
  ['qwen35', { 'qwen35.ssm.conv_kernel': { u32: 3 } }, [], 'blk.0.ssm_conv1d.weight is [4,64], the model needs [3,64]'],
  ['qwen35', { 'qwen35.ssm.conv_kernel': { u32: 65 } }, [], 'qwen35.ssm.conv_kernel is 65, expected at most 64'],
  ['qwen35', { 'qwen35.full_attention_interval': { u32: 2 } }, [], 'has the tensor "blk.1.attn_qkv.weight"'],
  [
    'qwen35',
    { 'qwen35.attention.recurrent_layers': { array: { type: 'bool', values: [true, false] } } },
    [],
    'qwen35.attention.recurrent_layers must be true or false for each of 4 layers, got [true,false]',
  ],
  ['qwen35', { 'qwen35.expert_count': { u32: 8 } }, [], 'sets qwen35.expert_count to 8; training supports 0 only'],
  [
    'qwen35',
    { 'qwen35.nextn_predict_layers': { u32: 4 } },
    [],
    'qwen35.nextn_predict_layers leaves 0 blocks, expected at least 1',
  ],
  ['qwen35', {}, ['blk.0.attn_q.weight'], 'this qwen35 model has the tensor "blk.0.attn_q.weight"'],
  ['qwen35', {}, ['blk.4.attn_q.weight'], 'the model file has blk.4.attn_q.weight, but declares 4 blocks'],
  ['qwen35moe', {}, [], 'architecture "qwen35moe" cannot be trained'],
] satisfies [string, Record<string, Metadata[string]>, string[], string][])(
  'a %s model with %j %j is refused by name',
  (name, extra, tensors, message) => {
    const architecture =
      name === 'lfm2' || name === 'qwen35'
        ? TINY_ARCHITECTURES[name]
        : { ...TINY_ARCHITECTURE, name, hasFusedLinears: name === 'phi3' };
    const path = join(directory, 'refused.gguf');
    const added = tensors.map((tensor) => ({ name: tensor, dims: [1], data: new Float32Array(1) }));
    writeGguf(path, { ...metadataOf(architecture), ...extra }, [...tinyTensors(architecture), ...added]);
    const file = GgufFile.open(path);
    try {
      expect(() => trainableArchitecture(file)).toThrow(
        expect.objectContaining({ code: 'trainer.architecture_unsupported' }),
      );
      expect(() => trainableArchitecture(file)).toThrow(message);
    } finally {
      file.close();
    }
  },
);
