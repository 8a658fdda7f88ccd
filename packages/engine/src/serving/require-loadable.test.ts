import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, LlamaModel, writeGguf, type GgufTensorData, type GgufWritableValue } from '@trainyard/native';
import { architectureMetadata, TINY_ARCHITECTURES, tinyTensors, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, describe, expect, it } from 'vitest';
import { requireLoadable } from './require-loadable.ts';
import { openServedFile } from './served-file.ts';
import { inspectServedModel } from './served-model-memory.ts';

const directory = mkdtempSync(join(tmpdir(), 'require-loadable-'));
afterAll(() => rmSync(directory, { recursive: true }));

type Metadata = Record<string, GgufWritableValue>;
interface Changes {
  readonly architecture?: typeof TINY_ARCHITECTURES.llama;
  readonly metadata?: Metadata;
  /** Omitted keys. */
  readonly without?: readonly string[];
  readonly tensors?: (tensors: GgufTensorData[]) => GgufTensorData[];
}

const { llama, qwen3 } = TINY_ARCHITECTURES;
const VOCABULARY = vocabulary();
let numFiles = 0;

function vocabulary(): Metadata {
  const path = join(directory, 'whole.gguf');
  writeTinyGguf(path, llama);
  using file = GgufFile.open(path);
  return Object.fromEntries(Object.entries(file.rawMetadata()).filter(([key]) => key.startsWith('tokenizer.')));
}

function write({ architecture = llama, metadata = {}, without = [], tensors = (all) => all }: Changes): string {
  const path = join(directory, `${numFiles++}.gguf`);
  const all = { ...architectureMetadata(architecture), ...VOCABULARY, ...metadata };
  const kept = Object.fromEntries(Object.entries(all).filter(([key]) => !without.includes(key)));
  writeGguf(path, kept, tensors(tinyTensors(architecture)));
  return path;
}

const lacking = (name: string) => (all: GgufTensorData[]) => all.filter((tensor) => tensor.name !== name);

/** The tensors of OLMo 2: norms after attention and feed-forward, and norms of q and k over all heads. */
const olmo2: Changes = {
  architecture: { ...qwen3, name: 'olmo2' },
  tensors: (all) =>
    all.map(({ name, dims, data }) => {
      const heads = /attn_([qk])_norm/.exec(name)?.[1];
      const width = qwen3.headSize * (heads === 'q' ? qwen3.numHeads : qwen3.numKvHeads);
      return heads === undefined
        ? { name: name.replace('attn_norm', 'post_attention_norm').replace('ffn_norm', 'post_ffw_norm'), dims, data }
        : { name, dims: [width], data: new Float32Array(width).fill(1) };
    }),
};

const UNLOADABLE: readonly (readonly [string, Changes, RegExp])[] = [
  [
    'olmo2 with a tied head',
    { ...olmo2, tensors: (all) => lacking('output.weight')(olmo2.tensors!(all)) },
    /'output\.weight' not found\. Remedy: .*no tied embeddings.*its own output\.weight, or serve another file$/,
  ],
  ['no norm of a block', { tensors: lacking('blk.0.attn_norm.weight') }, /'blk\.0\.attn_norm\.weight' not found/],
  ['no matrix of a block', { tensors: lacking('blk.1.ffn_down.weight') }, /'blk\.1\.ffn_down\.weight' not found/],
  ['no last norm', { tensors: lacking('output_norm.weight') }, /'output_norm\.weight' not found/],
  ['no embedding', { tensors: lacking('token_embd.weight') }, /'token_embd\.weight' not found/],
  ['a transposed matrix', { tensors: transposed('blk.0.ffn_up.weight') }, /'blk\.0\.ffn_up\.weight' has wrong shape/],
  [
    'another size of the vocabulary',
    { architecture: { ...llama, vocabSize: 200 } },
    /'token_embd\.weight' has wrong shape/,
  ],
  ['more blocks than declared', { metadata: { 'llama.block_count': { u32: 1 } } }, /wrong number of tensors/],
  [
    'fewer blocks than declared',
    { metadata: { 'llama.block_count': { u32: 3 } } },
    /'blk\.2\.attn_norm\.weight' not found/,
  ],
  ['no blocks', { metadata: { 'llama.block_count': { u32: 0 } } }, /llama\.block_count must be at least 1, got 0/],
  [
    'blocks without end',
    { metadata: { 'llama.block_count': { u32: 0xffffffff } } },
    /llama\.block_count is 4294967295/,
  ],
  [
    'no context',
    { metadata: { 'llama.context_length': { u32: 0 } } },
    /llama\.context_length must be at least 1, got 0/,
  ],
  ['no heads', { metadata: { 'llama.attention.head_count': { u32: 0 } } }, /has wrong shape/],
  [
    'heads that do not divide',
    { metadata: { 'llama.attention.head_count_kv': { u32: 3 } } },
    /'blk\.0\.attn_k\.weight' has wrong shape/,
  ],
  [
    'an unknown rope scaling',
    { metadata: { 'llama.rope.scaling.type': 'spiral', 'llama.rope.scaling.factor': 4 } },
    /llama\.rope\.scaling\.type must be none, linear, yarn or longrope, got "spiral"/,
  ],
  ['no epsilon', { without: ['llama.attention.layer_norm_rms_epsilon'] }, /layer_norm_rms_epsilon/],
  ['no width', { without: ['llama.embedding_length'] }, /llama\.embedding_length/],
  ['no vocabulary', { without: Object.keys(VOCABULARY) }, /vocabulary: key not found in model: tokenizer\.ggml\.model/],
  ['no tokens', { without: ['tokenizer.ggml.tokens'] }, /cannot find tokenizer vocab/],
  ['a file that declares none', { metadata: { 'tokenizer.ggml.model': 'no_vocab' } }, /no_vocab/],
  ['an unknown tokenizer', { metadata: { 'tokenizer.ggml.model': 'runes' } }, /unknown tokenizer: 'runes'/],
  ['an unknown pre-tokenizer', { metadata: { 'tokenizer.ggml.pre': 'runes' } }, /unknown pre-tokenizer type: 'runes'/],
  ['an unknown architecture', { architecture: { ...llama, name: 'loom' } }, /unknown model architecture: 'loom'/],
  ['no architecture', { without: ['general.architecture'] }, /unknown model architecture/],
  ['an adapter', { metadata: { 'general.type': 'adapter' } }, /general\.type is "adapter", a base model has "model"/],
  ['an embedding model', { metadata: { 'llama.attention.causal': false } }, /makes embeddings and cannot sample/],
];

function transposed(name: string) {
  return (all: GgufTensorData[]) =>
    all.map((tensor) => (tensor.name === name ? { ...tensor, dims: tensor.dims.toReversed() } : tensor));
}

describe('requireLoadable', () => {
  it.each(UNLOADABLE)('refuses a file with %s in one line, with its path and a remedy', (_name, changes, reason) => {
    const path = write(changes);
    let message = '';
    try {
      requireLoadable(path).close();
    } catch (error) {
      expect(error).toMatchObject({ code: 'native.model_unreadable' });
      ({ message } = error as Error);
    }
    expect(message).toMatch(reason);
    expect(message).toContain(`cannot load the model ${path}: `);
    expect(message).toMatch(/Remedy: .* or serve another file$/);
    expect(message).not.toMatch(/\n|llama_model_load|check_tensor_dims/);
  });

  it.each([
    ['llama', {}],
    ['qwen2', { architecture: TINY_ARCHITECTURES.qwen2 }],
    ['qwen3', { architecture: qwen3 }],
    ['olmo2', olmo2],
    ['a tied head of an architecture that has them', { tensors: lacking('output.weight') }],
    ['yarn', { metadata: { 'llama.rope.scaling.type': 'yarn', 'llama.rope.scaling.factor': 4 } }],
  ] satisfies [string, Changes][])('accepts files that llama.cpp loads: %s', (_name, changes) => {
    const path = write(changes);
    LlamaModel.load(path).close();
    expect(() => requireLoadable(path).close()).not.toThrow();
  });

  it('comes before a look at a model and before a copy of it, at every precision', () => {
    const options = { cacheDirectory: directory, numThreads: 1, capacityTokens: 64, cacheBytes: null, maxSequences: 1 };
    const modelPath = write(UNLOADABLE[0]![1]);
    for (const precision of ['exact', 'strict', 'fast', 'bf16'] as const) {
      expect(() => openServedFile({ ...options, modelPath, precision })).toThrow(/'output\.weight' not found/);
      expect(() => inspectServedModel({ ...options, modelPath, precision })).toThrow(/'output\.weight' not found/);
    }
  });
});
