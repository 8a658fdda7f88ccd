import { expect, test } from 'vitest';

import { roundTop, usageRows } from './usage-rows.ts';

const group = (model: string, kind: 'chat' | 'training', prompt: number, completion: number, numSteps = 0) => ({
  project: 'demo',
  model,
  num_steps: numSteps,
  kind,
  num_requests: 2,
  prompt_tokens: prompt,
  completion_tokens: completion,
});

test('a model is one row, with sampling and training apart', () => {
  const rows = usageRows(
    [
      group('base', 'chat', 1, 1),
      group('local/demo/x', 'chat', 300, 30, 2),
      group('local/demo/x', 'training', 5_000, 300),
    ],
    ({ project, model }) => [project ?? '', model ?? ''],
  );
  expect(rows).toHaveLength(2);
  expect(rows[0]).toEqual({
    key: 'demo\nlocal/demo/x',
    names: ['demo', 'local/demo/x'],
    numSteps: 2,
    numRequests: 2,
    promptTokens: 300,
    completionTokens: 30,
    numJobs: 2,
    trainedTokens: 300,
    contextTokens: 5_000,
  });
});

test.each([
  [0, 1],
  [7, 10],
  [1_234, 2_000],
  [48_000, 50_000],
  [50_000, 50_000],
])('the axis of %d ends at %d', (value, top) => expect(roundTop(value)).toBe(top));
