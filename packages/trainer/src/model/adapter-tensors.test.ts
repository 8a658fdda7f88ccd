import { expect, test } from 'vitest';
import {
  CONVOLUTION_LINEAR_NAMES,
  DELTA_LINEAR_NAMES,
  LINEAR_NAMES,
  linearDims,
  targetModules,
} from '@trainyard/transformer';
import { TINY_ARCHITECTURE, TINY_ARCHITECTURES } from '@trainyard/transformer/testing';
import { ggufAdapterTensors, peftTensors } from './adapter-tensors.ts';
import { initialLoraParameters } from './lora-parameters.ts';

const CONFIG = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 9 };

test('a fresh adapter is uniform within ±1/√in and zero on the other half', () => {
  const lora = initialLoraParameters(TINY_ARCHITECTURE, { ...CONFIG, rank: 32 });
  expect(lora.tensors).toHaveLength(2 * 7 * 2);
  for (const tensor of lora.tensors) {
    if (tensor.half === 'b') {
      expect(tensor.value.every((value) => value === 0)).toBe(true);
      continue;
    }
    const bound = 1 / Math.sqrt(linearDims(TINY_ARCHITECTURE, tensor.linear).in);
    const n = tensor.value.length;
    const mean = tensor.value.reduce((sum, value) => sum + value, 0) / n;
    const variance = tensor.value.reduce((sum, value) => sum + value * value, 0) / n;
    expect(tensor.value.every((value) => Math.abs(value) < bound)).toBe(true);
    // Five standard errors of a uniform distribution.
    expect(Math.abs(mean)).toBeLessThan((5 * bound) / Math.sqrt(3 * n));
    expect(Math.abs(variance / (bound * bound) - 1 / 3)).toBeLessThan((5 * Math.sqrt(4 / 45)) / Math.sqrt(n));
  }
});

test('values depend on the seed and the layer, not on which other layers are targets', () => {
  const value = (initSeed: number, targets: typeof CONFIG.targets, name: string) =>
    initialLoraParameters(TINY_ARCHITECTURE, { ...CONFIG, initSeed, targets }).tensors.find(
      (tensor) => tensor.name === name,
    )!.value;
  expect(value(9, ['up'], 'layers.1.up.a')).toEqual(value(9, LINEAR_NAMES, 'layers.1.up.a'));
  expect(value(10, ['up'], 'layers.1.up.a')).not.toEqual(value(9, ['up'], 'layers.1.up.a'));
  expect(value(9, ['up'], 'layers.0.up.a')).not.toEqual(value(9, ['up'], 'layers.1.up.a'));
});

test('GGUF names, axis order and interleaved heads', () => {
  const lora = initialLoraParameters(TINY_ARCHITECTURE, CONFIG);
  const b = lora.tensors.find((tensor) => tensor.name === 'layers.1.k.b')!;
  for (let i = 0; i < b.value.length; i++) b.value[i] = Math.floor(i / CONFIG.rank); // each row holds its own index
  const tensors = new Map(ggufAdapterTensors(lora, TINY_ARCHITECTURE).map((tensor) => [tensor.name, tensor]));
  expect(tensors.get('blk.0.ffn_down.weight.lora_a')?.dims).toEqual([64, 3]);
  expect(tensors.get('blk.0.ffn_down.weight.lora_b')?.dims).toEqual([3, 32]);
  const rows = tensors.get('blk.1.attn_k.weight.lora_b')!.data.filter((_, i) => i % CONFIG.rank === 0);
  expect(Array.from(rows)).toEqual([0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]);
  const plain = ggufAdapterTensors(lora, { ...TINY_ARCHITECTURE, hasInterleavedHeads: false });
  expect(plain.find((tensor) => tensor.name === 'blk.1.attn_k.weight.lora_b')!.data).toBe(b.value);
});

test('PEFT names and shapes', () => {
  const tensors = new Map(
    peftTensors(initialLoraParameters(TINY_ARCHITECTURE, CONFIG)).map((tensor) => [tensor.name, tensor]),
  );
  expect(tensors.get('base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight')?.dims).toEqual([3, 32]);
  expect(tensors.get('base_model.model.model.layers.1.mlp.up_proj.lora_B.weight')?.dims).toEqual([64, 3]);
  expect(targetModules(['q', 'down'])).toEqual(['q_proj', 'down_proj']);
  // Two linear layers have one of these names.
  const modules = ['q_proj', 'k_proj', 'v_proj', 'in_proj', 'out_proj', 'w1', 'w3', 'w2'];
  expect(targetModules(CONVOLUTION_LINEAR_NAMES)).toEqual(modules);
});

test('value heads of gated delta nets are in groups for PEFT, and in tiles in GGUF', () => {
  const { qwen35 } = TINY_ARCHITECTURES;
  const lora = initialLoraParameters(qwen35, { ...CONFIG, targets: DELTA_LINEAR_NAMES });
  /** Each row (of b) or column (of a) holds its own index. */
  const indexed = (name: string, axis: 'rows' | 'columns') => {
    const { value, dims } = lora.tensors.find((tensor) => tensor.name === name)!;
    value.forEach((_, i) => (value[i] = axis === 'rows' ? Math.floor(i / dims[1]) : i % dims[1]));
  };
  indexed('layers.0.deltaQkv.b', 'rows');
  indexed('layers.0.deltaA.b', 'rows');
  indexed('layers.0.deltaOut.a', 'columns');
  const [peft, gguf] = [peftTensors(lora), ggufAdapterTensors(lora, qwen35)].map(
    (all) => new Map(all.map(({ name, data }) => [name, Array.from(data)])),
  );
  const inPeft = (module: string) => peft!.get(`base_model.model.model.layers.0.linear_attn.${module}.weight`)!;
  // Two key heads with two value heads each: the second and third change places.
  expect(inPeft('in_proj_a.lora_B').filter((_, i) => i % CONFIG.rank === 0)).toEqual([0, 2, 1, 3]);
  expect(
    inPeft('out_proj.lora_A')
      .filter((_, i) => i % 8 === 0)
      .slice(0, 4),
  ).toEqual([0, 16, 8, 24]);
  const rows = inPeft('in_proj_qkv.lora_B').filter((_, i) => i % CONFIG.rank === 0);
  expect(rows.slice(0, 33)).toEqual(Array.from({ length: 33 }, (_, i) => i));
  expect([32, 40, 48, 56].map((row) => rows[row])).toEqual([32, 48, 40, 56]);
  expect(gguf!.get('blk.0.ssm_alpha.weight.lora_b')!.filter((_, i) => i % CONFIG.rank === 0)).toEqual([0, 1, 2, 3]);
});

test('a name that linear layers of several families have means those of the model', () => {
  const targets = ['out', 'convOut', 'deltaOut'] as const;
  const linearsOf = (name: 'lfm2' | 'qwen35') =>
    initialLoraParameters(TINY_ARCHITECTURES[name], { ...CONFIG, targets }).config.targets;
  expect(linearsOf('lfm2')).toEqual(['out', 'convOut']);
  expect(linearsOf('qwen35')).toEqual(['deltaOut']);
  expect(() => initialLoraParameters(TINY_ARCHITECTURE, { ...CONFIG, targets })).toThrow('has out_proj, which');
});
