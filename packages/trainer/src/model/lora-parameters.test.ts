import type { ModulePattern } from '@trainyard/transformer';
import { TINY_ARCHITECTURES } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { initialLoraParameters } from './lora-parameters.ts';

const tensorsWith = (options: { rankPattern?: ModulePattern; alphaPattern?: ModulePattern }) =>
  initialLoraParameters(TINY_ARCHITECTURES.lfm2, {
    rank: 4,
    alpha: 8,
    targets: ['q', 'convIn'],
    initSeed: 0,
    ...options,
  }).tensors;

test('a pattern selects modules of the base model', () => {
  const tensors = tensorsWith({ rankPattern: { 'layers.2.self_attn.q_proj': 2, in_proj: 3 } });
  const ranks = new Map(tensors.filter(({ half }) => half === 'a').map(({ name, dims }) => [name, dims[0]]));
  expect(Object.fromEntries(ranks)).toEqual({
    'layers.0.convIn.a': 3,
    'layers.1.convIn.a': 3,
    'layers.2.q.a': 2,
    'layers.3.convIn.a': 3,
  });
});

test.each(['layers.0.self_attn.q_proj', 'layers.9.conv.in_proj', 'w1'])(
  'the key %s, which selects none, is refused',
  (key) => {
    for (const [member, options] of [
      ['rank_pattern', { rankPattern: { [key]: 2 } }],
      ['alpha_pattern', { alphaPattern: { [key]: 2 } }],
    ] as const)
      expect(() => tensorsWith(options)).toThrow(
        `\`lora.${member}\` has ${key}, which selects no module of this base model: create the model without it`,
      );
  },
);
