import type { TokenLogprob } from '@trainyard/engine';
import { expect, test } from 'vitest';

import { CompletionLogprobWriter } from './completion-logprobs.ts';

const token = (text: string, bytes: number[] = [...Buffer.from(text)]): TokenLogprob => {
  const entry = { id: 1, logprob: -1, bytes, text };
  return { ...entry, top: [entry] };
};

test('offsets count characters, and the pieces of one begin where it does', () => {
  const [first = 0, second = 0, third = 0, fourth = 0] = Buffer.from('😀');
  const writer = new CompletionLogprobWriter({ numTop: 0, hasTokensAsIds: false, textBefore: 'é😀' });
  const { text_offset: offsets } = writer.write([
    token('é'),
    token('\uFFFD', [first, second]),
    token('\uFFFD', [third, fourth]),
    token('x'),
  ]);
  expect(offsets).toEqual([2, 3, 3, 4]);
  // The place is kept from chunk to chunk.
  expect(writer.write([token('y')]).text_offset).toEqual([5]);
});

test('−∞ is sent as −9999, and a text named __proto__ is an entry like any other', () => {
  const writer = new CompletionLogprobWriter({ numTop: 0, hasTokensAsIds: false, textBefore: '' });
  const columns = writer.write([{ ...token('__proto__'), logprob: -Infinity }]);
  expect(columns.token_logprobs).toEqual([-9999]);
  expect(JSON.stringify(columns.top_logprobs)).toBe('[{"__proto__":-1}]');
});
