import { FUSED_LINEAR_NAMES, LINEAR_NAMES } from '@trainyard/trainer';
import { expect, test } from 'vitest';

import { RequestError } from '../../seams/faults/request-error.ts';
import { contradictions, readLoraShape, toTargets } from './lora.ts';

const FUSED = { id: 'phi', numLayers: 2, linears: FUSED_LINEAR_NAMES };
const SEPARATE = { id: 'llama', numLayers: 2, linears: LINEAR_NAMES };

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
  },
);

test.each([
  [
    FUSED,
    ['down_proj', 'q_proj'] as const,
    'qkv_proj, o_proj, gate_up_proj, down_proj: the base model `phi` has no q_proj',
  ],
  [SEPARATE, ['qkv_proj'] as const, 'the base model `llama` has no qkv_proj'],
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
  expect(contradictions({ targets: 'all-linear', ...wire }, shape, 'x')).toEqual([]);
  expect(contradictions({ targets: ['qkv_proj'] }, shape, 'x')[0]?.msg).toContain(
    'qkv_proj, o_proj, gate_up_proj, down_proj',
  );
});
