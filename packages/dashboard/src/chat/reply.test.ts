import type { ChatCompletionChunk } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { addChunk, type Reply, textBefore } from './reply.ts';

const chunk = (index: number, delta: object, tokens: [string, number[]][] = [], finish: string | null = null) =>
  ({
    choices: [
      {
        index,
        delta,
        finish_reason: finish,
        logprobs: {
          content: tokens.map(([token, bytes]) => ({
            token,
            bytes,
            logprob: -1,
            top_logprobs: [{ token: 'x', bytes: [120], logprob: -0.5 }],
          })),
        },
      },
    ],
  }) as unknown as ChatCompletionChunk;

test('chunks add up to replies, each with its thoughts, calls and tokens', () => {
  let replies: readonly Reply[] = [];
  for (const one of [
    chunk(0, { role: 'assistant' }),
    chunk(0, { reasoning: 'Hm.' }),
    chunk(1, { content: 'other' }),
    chunk(0, { content: 'Hel' }, [['Hel', [72, 101, 108]]]),
    chunk(0, { content: 'lo' }, [['lo', [108, 111]]]),
    chunk(0, { tool_calls: [{ index: 0, function: { name: 'f', arguments: '{"a"' } }] }),
    chunk(0, { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }, [], 'tool_calls'),
    { choices: [] } as unknown as ChatCompletionChunk,
  ])
    replies = addChunk(replies, one);
  expect(replies).toMatchObject([
    { content: 'Hello', reasoning: 'Hm.', calls: [{ name: 'f', arguments: '{"a":1}' }], finishReason: 'tool_calls' },
    { content: 'other', finishReason: null },
  ]);
  expect(replies[0]?.tokens.map(({ text }) => text)).toEqual(['Hel', 'lo']);
  expect(replies[0]?.tokens[0]?.alternatives).toEqual([{ text: 'x', logprob: -0.5 }]);
});

test('the text before a token is correct, even if one character spans several tokens', () => {
  const token = (bytes: number[]) => ({ text: '?', logprob: 0, bytes, alternatives: [] });
  const tokens = [token([0xc3]), token([0xbc]), token([33])];
  expect(textBefore(tokens, 2)).toBe('ü');
  expect(textBefore(tokens, 2, '.')).toBe('ü.');
  expect(textBefore(tokens, 0)).toBe('');
});
