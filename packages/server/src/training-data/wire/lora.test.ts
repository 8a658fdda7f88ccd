import { DELTA_LINEAR_NAMES, FUSED_LINEAR_NAMES, LINEAR_NAMES } from '@trainyard/trainer';
import { expect, test } from 'vitest';

import { RequestError } from '../../seams/faults/request-error.ts';
import { contradictions, readLoraShape, toTargets } from './lora.ts';

const FEED_FORWARD = ['w1', 'w3', 'w2'] as const;
const WITH_ATTENTION = ['q', 'k', 'v', 'out', ...FEED_FORWARD] as const;
const OF_EXPERTS = ['q', 'k', 'v', 'o'] as const;

const FUSED = { id: 'phi', linearsByLayer: [FUSED_LINEAR_NAMES, FUSED_LINEAR_NAMES] };
const SEPARATE = { id: 'llama', linearsByLayer: [LINEAR_NAMES, LINEAR_NAMES] };
const WITH_CONVOLUTION = ['convIn', 'convOut', ...FEED_FORWARD] as const;
const CONVOLUTIONS = {
  id: 'lfm2',
  linearsByLayer: [WITH_CONVOLUTION, WITH_CONVOLUTION, WITH_ATTENTION, WITH_CONVOLUTION],
};
const MIXTURE = { id: 'moe', linearsByLayer: [OF_EXPERTS, OF_EXPERTS] };
const PARTLY_DENSE = { id: 'partly-dense', linearsByLayer: [LINEAR_NAMES, OF_EXPERTS] };

test.each([undefined, null, { targets: null }, { targets: 'all-linear' as const }])(
  'an adapter with %j is on all linear layers of its base model',
  (wire) => {
    expect(toTargets(readLoraShape(wire, null, FUSED).targets)).toEqual([
      'qkv_proj',
      'o_proj',
      'gate_up_proj',
      'down_proj',
    ]);
    expect(readLoraShape(wire, null, SEPARATE).targets).toEqual(LINEAR_NAMES);
    expect(toTargets(readLoraShape(wire, null, MIXTURE).targets)).toEqual(['q_proj', 'k_proj', 'v_proj', 'o_proj']);
  },
);

test.each([
  [
    FUSED,
    ['down_proj', 'q_proj'] as const,
    'qkv_proj, o_proj, gate_up_proj, down_proj: the base model `phi` has no q_proj',
  ],
  [SEPARATE, ['qkv_proj'] as const, 'the base model `llama` has no qkv_proj'],
  [MIXTURE, ['gate_proj', 'q_proj'] as const, 'q_proj, k_proj, v_proj, o_proj: the base model `moe` has no gate_proj'],
])('a layer that the base model has not is refused: %j', (base, targets, message) => {
  expect(() => readLoraShape({ targets: [...targets] }, null, base)).toThrow(RequestError);
  expect(() => readLoraShape({ targets: [...targets] }, null, base)).toThrow(message);
});

test('a base model that is not there yet may have any of them', () => {
  const shape = readLoraShape({ targets: ['gate_up_proj', 'qkv_proj'] }, null, { id: 'later' });
  expect(shape.targets).toEqual(['qkv', 'gateUp']);
});

test('options of fused layers are named like those of others, and compared with a checkpoint', () => {
  const wire = { rank_pattern: { 'layers.1.self_attn.qkv_proj': 2, gate_up_proj: 4 } };
  const shape = readLoraShape(wire, null, FUSED);
  expect(shape.rankPattern).toEqual({ 'layers.1.self_attn.qkv_proj': 2, gate_up_proj: 4 });
  expect(contradictions({ targets: 'all-linear', ...wire }, shape, { owner: 'x', base: null })).toEqual([]);
  expect(contradictions({ targets: ['qkv_proj'] }, shape, { owner: 'x', base: null })[0]?.msg).toContain(
    'qkv_proj, o_proj, gate_up_proj, down_proj',
  );
});

test('a name of two linear layers means both, and paths the one of their layer', () => {
  const wire = { targets: ['out_proj', 'w1'] as const, rank_pattern: { 'layers.3.conv.out_proj': 2, out_proj: 4 } };
  const shape = readLoraShape({ ...wire, targets: [...wire.targets] }, null, CONVOLUTIONS);
  expect(shape.targets).toEqual(['out', 'convOut', 'w1']);
  expect(toTargets(shape.targets)).toEqual(['out_proj', 'w1']);
  expect(shape.rankPattern).toEqual(wire.rank_pattern);
  expect(
    contradictions({ targets: ['w1', 'out_proj'], rank_pattern: wire.rank_pattern }, shape, { owner: 'x', base: null }),
  ).toEqual([]);
  expect(contradictions({ targets: 'all-linear' }, shape, { owner: 'x', base: null })[0]?.msg).toContain(
    'out_proj, w1',
  );
  for (const [rank_pattern, message] of [
    [{ 'self_attn.out_proj': 4 }, 'use `out_proj`, or paths such as `layers.3.self_attn.out_proj`'],
    [{ out_proj: 4, 'layers.3.conv.out_proj': 2 }, 'never applies, since `out_proj` comes first'],
    [{ 'layers.0.feed_forward.out_proj': 4 }, 'should be a layer such as `q_proj`'],
    [{ in_proj: 4 }, '`in_proj` is not in `targets`'],
  ] as const)
    expect(() => readLoraShape({ targets: ['out_proj'], rank_pattern }, null, CONVOLUTIONS)).toThrow(message);
  expect(() => readLoraShape({ targets: ['o_proj'] }, null, CONVOLUTIONS)).toThrow('has no o_proj');
});

test('all linear layers of a mixture of experts are those of its attention, also when a registration is repeated', () => {
  const shape = readLoraShape(null, null, MIXTURE);
  expect(contradictions({ targets: 'all-linear' }, shape, { owner: 'x', base: MIXTURE })).toEqual([]);
  expect(contradictions({ targets: ['q_proj'] }, shape, { owner: 'x', base: MIXTURE })).toHaveLength(1);
  expect(() => readLoraShape({ experts: true }, null, MIXTURE)).toThrow('has no experts that can have adapters');
});

test.each([
  [
    CONVOLUTIONS,
    'layers.0.self_attn.q_proj',
    'layer 0 of this base model has no `self_attn.q_proj`; layers that have it: 2',
  ],
  [CONVOLUTIONS, '^model.layers.3.self_attn.out_proj', 'layer 3 of this base model has no `self_attn.out_proj`'],
  [
    CONVOLUTIONS,
    'layers.2.conv.in_proj',
    'layer 2 of this base model has no `conv.in_proj`; layers that have it: 0, 1, 3',
  ],
  [PARTLY_DENSE, 'layers.1.mlp.up_proj', 'layer 1 of this base model has no `mlp.up_proj`; layers that have it: 0'],
  [SEPARATE, 'layers.2.mlp.up_proj', 'the layers of this base model are 0 to 1'],
  [FUSED, 'layers.0.self_attn.q_proj', '`q_proj` is not in `targets`'],
])('a path to a module that the layer does not have is refused: %o, %s', (base, key, message) => {
  for (const wire of [{ rank_pattern: { [key]: 4 } }, { alpha_pattern: { [key]: 4 } }])
    expect(() => readLoraShape(wire, null, base)).toThrow(`selects no module: ${message}`);
});

test.each([
  [CONVOLUTIONS, 'layers.2.self_attn.q_proj'],
  [CONVOLUTIONS, 'layers.0.conv.out_proj'],
  [PARTLY_DENSE, 'layers.0.mlp.up_proj'],
])('a path to a module that the layer has is taken: %o, %s', (base, key) => {
  expect(readLoraShape({ rank_pattern: { [key]: 4 } }, null, base).rankPattern).toEqual({ [key]: 4 });
});

test('a name that several families have means the linear layers of the base model, or all of them if it is not known', () => {
  const delta = DELTA_LINEAR_NAMES.filter((name) => !['q', 'k', 'v', 'o'].includes(name));
  const deltaNets = { id: 'qwen35', linearsByLayer: [delta, LINEAR_NAMES] };
  const targetsOf = (base: Parameters<typeof readLoraShape>[2]) =>
    readLoraShape({ targets: ['out_proj', 'q_proj'] }, null, base).targets;
  expect(targetsOf(deltaNets)).toEqual(['q', 'deltaOut']);
  expect(targetsOf(CONVOLUTIONS)).toEqual(['q', 'out', 'convOut']);
  expect(targetsOf({ id: 'x', linearsByLayer: null })).toEqual(['q', 'out', 'convOut', 'deltaOut']);
  const all = readLoraShape(null, null, deltaNets);
  expect(toTargets(all.targets)).toEqual([
    'q_proj',
    'k_proj',
    'v_proj',
    'in_proj_qkv',
    'in_proj_z',
    'in_proj_b',
    'in_proj_a',
    'o_proj',
    'out_proj',
    'gate_proj',
    'up_proj',
    'down_proj',
  ]);
});
