/** Model files with blocks that no model of their family has. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, type GgufTensorData, type GgufWritableValue, writeGguf } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import { architectureMetadata, TINY_ARCHITECTURES, type TinyName, tinyTensors } from '../testing/index.ts';
import { type Architecture, contextLimit, linearNames, readArchitecture } from './architecture.ts';

const directory = mkdtempSync(join(tmpdir(), 'architecture-'));
afterAll(() => rmSync(directory, { recursive: true }));

function read(
  architecture: Architecture,
  change: (tensors: GgufTensorData[]) => GgufTensorData[] = (tensors) => tensors,
  metadata: Readonly<Record<string, GgufWritableValue>> = {},
): Architecture {
  const path = join(directory, 'model.gguf');
  writeGguf(path, { ...architectureMetadata(architecture), ...metadata }, change(tinyTensors(architecture)));
  using file = GgufFile.open(path);
  return readArchitecture(file);
}

const added = (name: string): GgufTensorData => ({ name, dims: [1], data: new Float32Array(1) });

test.each<[TinyName, string]>([
  ['lfm2', 'blk.0.attn_q.weight'],
  ['lfm2', 'blk.2.shortconv.conv.weight'],
  ['qwen3moe', 'blk.0.ffn_gate.weight'],
  ['granitemoe', 'blk.1.ffn_up.weight'],
  ['gpt-oss', 'blk.1.ffn_down.weight'],
  ['qwen35', 'blk.0.attn_k.weight'],
  ['qwen35', 'blk.2.ssm_out.weight'],
])('a %s model with %s is refused: the block has other parts', (name, tensor) => {
  expect(() => read(TINY_ARCHITECTURES[name], (tensors) => [...tensors, added(tensor)])).toThrow(
    `this ${name} model has the tensor "${tensor}", which training does not support there`,
  );
});

test('blocks that predict further tokens are skipped', () => {
  const { qwen35 } = TINY_ARCHITECTURES;
  const path = join(directory, 'predicts.gguf');
  const metadata = {
    ...architectureMetadata(qwen35),
    'qwen35.block_count': { u32: 5 },
    'qwen35.nextn_predict_layers': { u32: 1 },
  };
  writeGguf(path, metadata, [
    ...tinyTensors(qwen35),
    added('blk.4.nextn.eh_proj.weight'),
    added('blk.4.attn_q.weight'),
  ]);
  using file = GgufFile.open(path);
  expect(readArchitecture(file)).toEqual({ ...qwen35, rmsEpsilon: Math.fround(qwen35.rmsEpsilon) });
});

test('files of newer converters list the layers without attention', () => {
  const { qwen35 } = TINY_ARCHITECTURES;
  const path = join(directory, 'listed.gguf');
  const listed = (layers: readonly number[]) => {
    const values = Array.from({ length: 5 }, (_, layer) => layers.includes(layer));
    const metadata = {
      ...architectureMetadata(qwen35),
      'qwen35.full_attention_interval': { u32: 7 },
      'qwen35.attention.recurrent_layers': { array: { type: 'bool' as const, values } },
    };
    writeGguf(path, metadata, tinyTensors(qwen35));
    using file = GgufFile.open(path);
    return readArchitecture(file);
  };
  expect(listed([0, 1, 3, 4]).deltaNet).toEqual(qwen35.deltaNet);
  expect(() => listed([0, 2, 3])).toThrow('has the tensor "blk.1.attn_qkv.weight"');
});

const withDenseBlock = (name: TinyName): Architecture => {
  const architecture = TINY_ARCHITECTURES[name];
  return { ...architecture, experts: { ...architecture.experts!, denseLayers: [1] } };
};

test('experts without their router are refused, and not left out of a dense block', () => {
  const architecture = withDenseBlock('qwen3moe');
  expect(read(architecture).experts).toEqual(architecture.experts);
  const name = 'blk.1.ffn_gate_exps.weight';
  expect(() => read(architecture, (tensors) => [...tensors, added(name)])).toThrow(
    `this qwen3moe model has the tensor "${name}", which training does not support there`,
  );
});

test.each(['attn_sinks.weight', 'attn_output.bias'])('a dense block of gpt-oss needs %s, too', (part) => {
  const name = `blk.1.${part}`;
  const without = (tensors: GgufTensorData[]) => tensors.filter((tensor) => tensor.name !== name);
  expect(() => read(withDenseBlock('gpt-oss'), without)).toThrow(`the model file has no ${name}`);
});

test('a dense block next to blocks with experts and a shared feed-forward is refused', () => {
  expect(() => read(withDenseBlock('granitemoe'))).toThrow(
    'the model file has no blk.1.ffn_gate_inp.weight; with expert_shared_feed_forward_length each block needs experts',
  );
});

test.each(['qwen3moe', 'gpt-oss'] as const)('no setting of a %s file is a size that no tensor has', (name) => {
  const architecture = TINY_ARCHITECTURES[name];
  const found = read(architecture, undefined, { [`${name}.feed_forward_length`]: { u32: 2 ** 31 } });
  expect(found.feedForwardSize).toBe(architecture.experts!.feedForwardSize);
});

test('a mixture of experts without any is refused, since no tensor has the sizes of its experts', () => {
  const architecture = TINY_ARCHITECTURES.qwen3moe;
  const dense = { ...architecture, experts: { ...architecture.experts!, denseLayers: [0, 1] } };
  expect(() => read(dense)).toThrow('no block of the model file has experts (ffn_gate_inp.weight)');
});

const withConvolutions = (layers: readonly number[]): Architecture => ({
  ...TINY_ARCHITECTURES.lfm2,
  convolution: { size: 3, layers },
});

test('a model with convolutions in all layers is refused', () => {
  expect(() => read(withConvolutions([0, 1, 2, 3]))).toThrow(
    'no block of the model file has attention (lfm2.attention.head_count_kv)',
  );
});

test('layers that may have an adapter are those of some block', () => {
  expect(linearNames(read(withConvolutions([])))).toEqual(['q', 'k', 'v', 'out', 'w1', 'w3', 'w2']);
  expect(linearNames(read(withConvolutions([1])))).toContain('convIn');
  expect(linearNames(read(withDenseBlock('qwen3moe')))).toContain('gate');
  expect(linearNames(read(TINY_ARCHITECTURES.qwen3moe))).toEqual(['q', 'k', 'v', 'o']);
});

test('a context that a file repeats for each layer is that number; without a number there is no limit', () => {
  const limitOf = (value: unknown) =>
    contextLimit({
      metadata: new Map<string, never>([
        ['general.architecture', 'x' as never],
        ['x.context_length', value as never],
      ]),
      tensors: new Map(),
    });
  expect([4096, 4096n, [4096, 4096], [4096, 8192], 'many'].map(limitOf)).toEqual([
    4096,
    4096,
    4096,
    Infinity,
    Infinity,
  ]);
});
