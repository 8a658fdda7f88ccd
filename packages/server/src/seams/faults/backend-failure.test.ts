import { refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';
import { namesFrom } from '@trainyard/protocol';
import { expect, test } from 'vitest';

import { BackendFailure, refusingAsBackend, toBackendFailure } from './backend-failure.ts';

const fail = (param: string) => ({ code: 'engine.invalid_request', message: 'no', param }) as const;

test.each([
  ['minTokens', 'min_tokens'],
  ['maxTokens', 'max_tokens'],
  ['adapter', 'model'],
  ['chatTemplate', 'chat_template'],
  ['reply.toolChoice', 'tool_choice'],
  ['prompt', 'messages'],
  ['constraint', 'response_format'],
  ['toString', 'toString'],
])('an engine error about %s is reported for %s', (param, field) => {
  const origins = { prompt: 'messages', constraint: 'response_format' } as const;
  expect(toBackendFailure(fail(param), origins)).toMatchObject({
    code: 'engine.invalid_request',
    message: 'no',
    param: field,
  });
});

test('a message names the same fields, by the reader’s names', () => {
  const text = naming`${{ field: 'minTokens' }} must be at most ${{ field: 'maxTokens' }}, got minTokens`;
  const failure = toBackendFailure({ ...fail('minTokens'), text });
  expect(failure.message).toBe('min_tokens must be at most max_tokens, got minTokens');
  const inForm = failure.inForm(namesFrom({ max_tokens: 'max_output_tokens' }));
  expect(inForm).toMatchObject({
    message: 'min_tokens must be at most max_output_tokens, got minTokens',
    param: 'min_tokens',
  });
});

test('a refusal like an engine’s fails as a back end', () => {
  expect(refusingAsBackend(() => 5)).toBe(5);
  const run = () =>
    refusingAsBackend(() => {
      throw refusal('prompt', 'too long');
    });
  expect(run).toThrow(BackendFailure);
  expect(run).toThrow(expect.objectContaining({ param: 'prompt', message: 'too long' }));
});
