import { expect, test } from 'vitest';
import { shareWarning } from './share-warning.ts';

test('shares that llama.cpp would normalise are a warning if it samples', () => {
  const file = (value?: boolean) => ({
    metadata: new Map(value === undefined ? [] : [['qwen3moe.expert_weights_norm', value]]),
  });
  expect(shareWarning(file(false), 'llama')).toContain('qwen3moe.expert_weights_norm to false');
  expect(shareWarning(file(false), 'graphs')).toBeNull();
  expect(shareWarning(file(true), 'llama')).toBeNull();
  expect(shareWarning(file(), 'llama')).toBeNull();
});
