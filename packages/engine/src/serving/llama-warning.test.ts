import { expect, test } from 'vitest';
import { llamaWarning } from './llama-warning.ts';

const file = (key: string, value?: boolean | string) => ({
  metadata: new Map(value === undefined ? [] : [[key, value]]),
});

test('shares that llama.cpp would normalise are a warning if it samples', () => {
  const withShares = (value?: boolean) => file('qwen3moe.expert_weights_norm', value);
  expect(llamaWarning(withShares(false), 'llama')).toContain('qwen3moe.expert_weights_norm to false');
  expect(llamaWarning(withShares(false), 'graphs')).toBeNull();
  expect(llamaWarning(withShares(true), 'llama')).toBeNull();
  expect(llamaWarning(withShares(), 'llama')).toBeNull();
});

test('yarn of gpt-oss is a warning if llama.cpp samples', () => {
  const withYarn = file('gpt-oss.rope.scaling.type', 'yarn');
  expect(llamaWarning(withYarn, 'llama')).toContain('which gpt-oss does not');
  expect(llamaWarning(withYarn, 'graphs')).toBeNull();
  expect(llamaWarning(file('olmo2.rope.scaling.type', 'yarn'), 'llama')).toBeNull();
});
