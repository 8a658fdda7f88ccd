import { expect, test } from 'vitest';

import { type Exchange, messagesFor, NO_ANSWER, timingText, withAnswer } from './chat-session.ts';
import { EMPTY_REPLY } from './reply.ts';

const answer = (content: string) => ({
  replies: [{ ...EMPTY_REPLY, content }],
  isStreaming: false,
  error: null,
  timing: null,
});
const EXCHANGES: readonly Exchange[] = [
  { input: 'one', answers: [answer('a'), answer('b')] },
  { input: 'two', answers: [answer(''), null] },
  { input: 'three', answers: [] },
];

test('each model continues with its own answers', () => {
  expect(messagesFor(EXCHANGES, 2, 0, 'Be brief.')).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'one' },
    { role: 'assistant', content: 'a' },
    { role: 'user', content: 'two' },
    { role: 'user', content: 'three' },
  ]);
  expect(messagesFor(EXCHANGES, 1, 1, ' ').map(({ content }) => content)).toEqual(['one', 'b', 'two']);
});

test('an update changes only the answer at its place', () => {
  const after = withAnswer(EXCHANGES, 1, 1, (before) => ({ ...before, isStreaming: false }));
  expect(after[0]).toBe(EXCHANGES[0]);
  expect(after[1]?.answers[0]).toBe(EXCHANGES[1]?.answers[0]);
  expect(after[1]?.answers[1]).toEqual({ ...NO_ANSWER, isStreaming: false });
});

test('the rate counts the tokens after the first one, over the time since it', () => {
  expect(timingText({ firstMs: 420, totalMs: 1_420, numTokens: 36 })).toBe(
    '0.42 s to the first token · 36 tokens · 35.0 tokens/s',
  );
  expect(timingText({ firstMs: 50, totalMs: 50, numTokens: 1 })).toBe('0.05 s to the first token · 1 token');
});
