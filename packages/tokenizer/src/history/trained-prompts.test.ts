import { describe, expect, test } from 'vitest';

import { ChatTemplate, Tokenizer } from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { comparePrompts } from '../testing/compare-prompts.ts';
import { CONVERSATIONS, FAMILIES, TOOL } from '../testing/template-families.ts';

test('twelve families are compared', () => {
  expect(Object.keys(FAMILIES)).toHaveLength(12);
});

describe.each(Object.entries(FAMILIES))('%s', (_name, { source, end, controlTokens, hasSingleCalls = false }) => {
  const tokenizer = new Tokenizer(new ByteVocabulary({ controlTokens, endToken: end }), { maxTextBytes: 1e6 });
  const template = new ChatTemplate(tokenizer, source);

  const ending = Object.entries(CONVERSATIONS).filter(
    ([about, messages]) =>
      messages.some(({ role }) => role === 'assistant') && !(hasSingleCalls && about === 'two calls'),
  );
  test.each(ending)('%s: each reply is trained after the prompt that was sampled', (_about, messages) => {
    for (const options of [{}, { tools: [TOOL] }]) {
      const compared = comparePrompts(template, messages, options);
      expect(compared.numReplies).toBe(messages.filter(({ role }) => role === 'assistant').length);
      expect([compared.different, compared.numReported]).toEqual([[], 0]);
    }
  });
});
