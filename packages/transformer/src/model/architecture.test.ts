/** Model files with blocks that no model of their family has. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, type GgufTensorData, writeGguf } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import { architectureMetadata, TINY_ARCHITECTURES, type TinyName, tinyTensors } from '../testing/index.ts';
import { type Architecture, readArchitecture } from './architecture.ts';

const directory = mkdtempSync(join(tmpdir(), 'architecture-'));
afterAll(() => rmSync(directory, { recursive: true }));

function read(architecture: Architecture, change: (tensors: GgufTensorData[]) => GgufTensorData[]): Architecture {
  const path = join(directory, 'model.gguf');
  writeGguf(path, architectureMetadata(architecture), change(tinyTensors(architecture)));
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
])('a %s model with %s is refused: the block has other parts', (name, tensor) => {
  expect(() => read(TINY_ARCHITECTURES[name], (tensors) => [...tensors, added(tensor)])).toThrow(
    `this ${name} model has the tensor "${tensor}", which training does not support there`,
  );
});

const withDenseBlock = (name: TinyName): Architecture => {
  const architecture = TINY_ARCHITECTURES[name];
  return { ...architecture, experts: { ...architecture.experts!, denseLayers: [1] } };
};

test('experts without their router are refused, and not left out of a dense block', () => {
  const architecture = withDenseBlock('qwen3moe');
  expect(read(architecture, (tensors) => tensors).experts).toEqual(architecture.experts);
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
  expect(() => read(withDenseBlock('granitemoe'), (tensors) => tensors)).toThrow(
    'the model file has no blk.1.ffn_gate_inp.weight; with expert_shared_feed_forward_length each block needs experts',
  );
});
