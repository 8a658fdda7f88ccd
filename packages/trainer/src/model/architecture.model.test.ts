import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, LlamaContext, LlamaModel, writeGguf } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import type { Architecture } from './architecture.ts';
import { linearDims, readArchitecture } from './architecture.ts';
import { toHalves, toInterleaved } from './head-permutation.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';
import { PROJECTIONS, PROJECTION_NAMES } from './projections.ts';
import { TINY_ARCHITECTURE, randomSource, tinyWeights } from './tiny-model.ts';
import { GGUF_LINEARS } from './weights.ts';

const directory = mkdtempSync(join(tmpdir(), 'trainyard-architecture-'));
afterAll(() => rmSync(directory, { recursive: true }));

type Tensors = Parameters<typeof writeGguf>[2];
type Metadata = Parameters<typeof writeGguf>[1];

function metadataOf(a: Architecture): Record<string, Metadata[string]> {
  return {
    'general.architecture': a.name,
    'tokenizer.ggml.model': 'none',
    [`${a.name}.vocab_size`]: { u32: a.vocabSize },
    [`${a.name}.context_length`]: { u32: 256 },
    [`${a.name}.block_count`]: { u32: a.numLayers },
    [`${a.name}.embedding_length`]: { u32: a.hiddenSize },
    [`${a.name}.feed_forward_length`]: { u32: a.feedForwardSize },
    [`${a.name}.attention.head_count`]: { u32: a.numHeads },
    [`${a.name}.attention.head_count_kv`]: { u32: a.numKvHeads },
    [`${a.name}.attention.key_length`]: { u32: a.headSize },
    [`${a.name}.attention.value_length`]: { u32: a.headSize },
    [`${a.name}.attention.layer_norm_rms_epsilon`]: a.rmsEpsilon,
    [`${a.name}.rope.freq_base`]: a.ropeBase,
    [`${a.name}.rope.dimension_count`]: { u32: a.headSize },
  };
}

/** Random weights as the files of that architecture hold them; the interleaving of heads is whatever the numbers happen to mean. */
function tensorsOf(a: Architecture): Tensors[number][] {
  const weights = tinyWeights(a, randomSource(21));
  const vector = (name: string, data: Float32Array) => ({ name, dims: [data.length], data });
  return [
    { name: 'token_embd.weight', dims: [a.hiddenSize, a.vocabSize], data: weights.embedding },
    { name: 'output.weight', dims: [a.hiddenSize, a.vocabSize], data: weights.output },
    vector('output_norm.weight', weights.outputNorm),
    ...weights.blocks.flatMap((block, layer) => {
      const prefix = `blk.${layer}`;
      return [
        vector(`${prefix}.attn_norm.weight`, block.attentionNorm),
        vector(`${prefix}.ffn_norm.weight`, block.feedForwardNorm),
        ...PROJECTION_NAMES.flatMap((projection) => {
          let row = 0;
          return PROJECTIONS[projection].flatMap((linear) => {
            const dims = linearDims(a, linear);
            const start = row;
            row += dims.out;
            return [
              {
                name: `${prefix}.${GGUF_LINEARS[linear]}.weight`,
                dims: [dims.in, dims.out],
                data: block.matrices[projection].plainRows(start, row),
              },
              ...(block.bias === null || projection !== 'qkv'
                ? []
                : [vector(`${prefix}.attn_${linear}.bias`, block.bias.subarray(start, row))]),
            ];
          });
        }),
        ...Object.entries(block.headNorms ?? {}).map(([linear, data]) =>
          vector(`${prefix}.attn_${linear}_norm.weight`, data),
        ),
      ];
    }),
  ];
}

const CASES: readonly [string, Partial<Architecture>, Record<string, Metadata[string]>][] = [
  ['llama', {}, {}],
  [
    'llama with linear rope scaling',
    { ropeScale: 4 },
    { 'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': 4 },
  ],
  ['qwen2', { name: 'qwen2', hasAttentionBias: true, hasInterleavedHeads: false }, {}],
  ['qwen3', { name: 'qwen3', hasHeadNorm: true, hasInterleavedHeads: false }, {}],
];

test.each(CASES)(
  '%s: a random model file gives the log-probabilities llama.cpp gives',
  async (name, differences, extra) => {
    const architecture = { ...TINY_ARCHITECTURE, ...differences };
    const path = join(directory, `${name}.gguf`);
    writeGguf(path, { ...metadataOf(architecture), ...extra }, tensorsOf(architecture));
    const file = GgufFile.open(path);
    expect(readArchitecture(file)).toEqual({
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
    using context = new LlamaContext(llama, { contextTokens: 128, maxSequences: 1, batchTokens: 64, numThreads: 1 });
    tokenIds.subarray(0, -1).forEach((id, position) => context.batch.add(id, position, 0, true));
    context.decode();
    const logits = context.logits();
    let worst = 0;
    logprobs.forEach((logprob, i) => {
      const row = Array.from(logits.subarray(i * V, (i + 1) * V));
      const max = Math.max(...row);
      const expected =
        row[tokenIds[i + 1]!]! - max - Math.log(row.reduce((sum, value) => sum + Math.exp(value - max), 0));
      worst = Math.max(worst, Math.abs(logprob - expected));
    });
    console.log(`${name}: max |Δlogprob| ${worst.toExponential(1)}`);
    // llama.cpp keeps keys and values in half precision: 11 bits of mantissa.
    expect(worst).toBeLessThan(0.02);
  },
);

test.each([
  ['gemma3', {}, [], 'architecture "gemma3" cannot be trained; supported: llama, qwen2, qwen3'],
  ['llama', { 'llama.rope.scaling.type': 'yarn' }, [], 'rope scaling "yarn" is not supported; supported: none, linear'],
  ['llama', { 'llama.rope.dimension_count': { u32: 4 } }, [], 'rope over 4 of 8 dimensions of a head is not supported'],
  ['llama', {}, ['blk.0.ffn_gate_exps.weight'], 'blk.0.ffn_gate_exps.weight'],
] satisfies [string, Record<string, Metadata[string]>, string[], string][])(
  'a %s model with %j %j is refused by name',
  (name, extra, tensors, message) => {
    const architecture = { ...TINY_ARCHITECTURE, name };
    const path = join(directory, 'refused.gguf');
    const added = tensors.map((tensor) => ({ name: tensor, dims: [1], data: new Float32Array(1) }));
    writeGguf(path, { ...metadataOf(architecture), ...extra }, [...tensorsOf(architecture), ...added]);
    const file = GgufFile.open(path);
    try {
      expect(() => readArchitecture(file)).toThrow(
        expect.objectContaining({ code: 'trainer.architecture_unsupported' }),
      );
      expect(() => readArchitecture(file)).toThrow(message);
    } finally {
      file.close();
    }
  },
);

test('interleaving heads undoes bringing them into halves', () => {
  const matrix = Float32Array.from({ length: 2 * 4 * 3 }, (_, i) => i);
  const halves = toHalves(matrix, 2, 3);
  // Head 0 has rows 0, 1, 2, 3: the even ones come first.
  expect(Array.from(halves.subarray(0, 12))).toEqual([0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]);
  expect(Array.from(toInterleaved(halves, 2, 3))).toEqual(Array.from(matrix));
});
