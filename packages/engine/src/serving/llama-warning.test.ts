import { expect, test } from 'vitest';
import { llamaWarning } from './llama-warning.ts';

const file = (name: string, settings: Readonly<Record<string, boolean | string | number>> = {}) => ({
  metadata: new Map<string, boolean | string | number>([
    ['general.architecture', name],
    ...Object.entries(settings).map(([key, value]) => [`${name}.${key}`, value] as const),
  ]),
});

test('shares that llama.cpp would normalise are a warning if it samples', () => {
  const withShares = (value: boolean) => file('qwen3moe', { expert_weights_norm: value });
  expect(llamaWarning(withShares(false), 'llama')).toContain('qwen3moe.expert_weights_norm to false');
  expect(llamaWarning(withShares(false), 'graphs')).toBeNull();
  expect(llamaWarning(withShares(true), 'llama')).toBeNull();
  expect(llamaWarning(file('qwen3moe'), 'llama')).toBeNull();
});

test('yarn that llama.cpp computes in another way is a warning if it samples', () => {
  const withYarn = (name: string, more = {}) => file(name, { 'rope.scaling.type': 'yarn', ...more });
  expect(llamaWarning(withYarn('gpt-oss'), 'llama')).toContain('which gpt-oss does not');
  expect(llamaWarning(withYarn('gpt-oss'), 'graphs')).toBeNull();
  expect(llamaWarning(withYarn('olmo2'), 'llama')).toBeNull();
  expect(llamaWarning(withYarn('olmo2', { 'rope.scaling.yarn_beta_fast': 32 }), 'llama')).toBeNull();
  expect(llamaWarning(withYarn('olmo2', { 'rope.scaling.yarn_beta_slow': 2 }), 'llama')).toContain(
    'the file sets olmo2.rope.scaling.yarn_beta_slow, and llama.cpp uses 1:',
  );
  expect(llamaWarning(file('olmo2', { 'rope.scaling.yarn_beta_slow': 2 }), 'llama')).toBeNull();
});
