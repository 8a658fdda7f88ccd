import { expect } from 'vitest';

import { REQUEST_LIMITS } from '@trainyard/protocol';
import { test } from '../behaviour-test.ts';
import { ChatCompletionRequestSchema, CompletionRequestSchema } from '@trainyard/protocol';

interface Limits {
  maximum?: number;
  maxItems?: number;
  maxLength?: number;
  anyOf?: Limits[];
}

/** First limit of its kind, at any depth of unions with null. */
function limitOf(schema: Limits, kind: 'maximum' | 'maxItems' | 'maxLength'): number | undefined {
  return schema[kind] ?? schema.anyOf?.map((branch) => limitOf(branch, kind)).find((limit) => limit !== undefined);
}

/** Without these limits in the schema the engine would refuse the values later and with other messages. */
test.each([
  ['chat completions', ChatCompletionRequestSchema.properties],
  ['text completions', CompletionRequestSchema.properties],
])('%s: the limits of the schema are those of the engine', (_, fields) => {
  const limits = {
    choices: limitOf(fields.n as Limits, 'maximum'),
    stopCharacters: limitOf(fields.stop as Limits, 'maxLength'),
    stopTokenIds: limitOf(fields.stop_token_ids as Limits, 'maxItems'),
    badWords: limitOf(fields.bad_words as Limits, 'maxItems'),
    logprobTokenIds: limitOf(fields.logprob_token_ids as Limits, 'maxItems'),
  };
  expect(REQUEST_LIMITS).toMatchObject(limits);
});
