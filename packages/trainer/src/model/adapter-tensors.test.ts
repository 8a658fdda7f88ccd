import { expect, test } from 'vitest';
import { CONVOLUTION_LINEAR_NAMES, LINEAR_NAMES, linearDims, targetModules } from '@trainyard/transformer';
import { TINY_ARCHITECTURE } from '@trainyard/transformer/testing';
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
