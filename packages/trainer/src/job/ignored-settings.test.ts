import { expect, test } from 'vitest';

import { ignoredSettingsWarning } from './ignored-settings.ts';

test.each([
  ['rl', ['learning_rat'], '`learning_rat` (did you mean learning_rate?) has no effect on this job'],
  ['rl', ['plot_tensors', 'zzz'], '`plot_tensors`, `zzz` have no effect on this job'],
  ['sft', ['epochs'], '`epochs` (did you mean experimental_config.epochs?) has no effect on this job'],
  [
    'sft',
    ['experimental_config.batch_size'],
    '`experimental_config.batch_size` (did you mean batch_size?) has no effect on this job',
  ],
  [
    'sft',
    ['experimental_config.epoch'],
    '`experimental_config.epoch` (did you mean experimental_config.epochs?) has no effect on this job',
  ],
] as const)('%s: %j', (kind, keys, message) => {
  expect(ignoredSettingsWarning(kind, keys)).toMatchObject({ code: 'ignored_settings', message, value: keys.length });
});

test('a job with only effective settings has no warning, and one with very many ignored ones names some', () => {
  expect(ignoredSettingsWarning('rl', [])).toBeNull();
  const many = Array.from({ length: 1000 }, (_, index) => `unknown_${index}`);
  expect(ignoredSettingsWarning('rl', many)?.message).toMatch(/ and 990 more have no effect/);
});
