import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Architecture, TRAINABLE_ARCHITECTURES } from '@trainyard/transformer';
import { TINY_ARCHITECTURES } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { huggingFaceConfig } from '../export/hugging-face-config.ts';
import { TRANSFORMERS_FAMILIES } from './transformers-families.ts';

const GUIDE = join(import.meta.dirname, '../../../../docs/guide/your-own-model.md');

test('each trainable architecture has a family of transformers, a tiny model and a row of the guide', () => {
  const families = Object.entries(TRANSFORMERS_FAMILIES);
  expect(new Set(families.map(([, { architecture }]) => architecture))).toEqual(new Set(TRAINABLE_ARCHITECTURES));
  const tiny = Object.values(TINY_ARCHITECTURES).map(({ name }) => name);
  expect(new Set(tiny)).toEqual(new Set(TRAINABLE_ARCHITECTURES));
  const rows = readFileSync(GUIDE, 'utf8').matchAll(
    /^\| [^|]+ \| `(\w+)` \| `([\w-]+)` \| `(\w+For(?:CausalLM|ConditionalGeneration))` \|$/gm,
  );
  expect(Array.from(rows, ([, ...cells]) => cells)).toEqual(
    families.map(([modelType, { architecture, className }]) => [modelType, architecture, className]),
  );
});

const FACTS = { contextLength: 512, bosTokenId: null, eosTokenId: 258, hasTiedEmbeddings: false };

test.each([
  ['granite', { unrotatedPeriod: 1 }],
  ['granitemoe', { unrotatedPeriod: 1 }],
  ['lfm2', { hasAttentionBias: true }],
  ['mistral', { hasAttentionBias: true }],
] as const)('%s with %j has no class that computes it', (name, differences) => {
  const architecture = TINY_ARCHITECTURES[name];
  const configOf = (own: Architecture) => huggingFaceConfig(own, FACTS, null, 'f32');
  expect(configOf(architecture)).toHaveProperty('architectures');
  expect(() => configOf({ ...architecture, ...differences })).toThrow('has no class of transformers for this');
});
