import { expect, test } from 'vitest';

import { kindOf } from './model-kind.ts';

test.each([
  [['train/loss', 'train/grad_norm'], 'sft', 'sft'],
  [['train/loss', 'train/reward'], 'sft', 'rl'],
  [['val/reward', 'train/loss'], 'sft', 'rl'],
  [[], 'sft', 'sft'],
  [[], 'rl', 'rl'],
  [[], null, null],
] as const)('metrics %j and a newest job of kind %s make a model of kind %s', (names, newest, kind) => {
  expect(kindOf(names, newest)).toBe(kind);
});
