import { expect, test } from 'vitest';

import { maskReason, tokenRuns } from './token-runs.ts';

const mask = (text: string) => Array.from(text, (letter) => letter === 'T');
const sampled = (reward?: number) => ({
  message: { role: 'assistant', content: 'x' },
  logprobs: { content: [] },
  ...(reward === undefined ? {} : { reward }),
});

test('examples, tool results and per-turn rewards belong to the runs between sampled replies', () => {
  const items = [
    { role: 'user', content: 'an example' },
    { role: 'assistant', content: 'its answer' },
    { role: 'user', content: 'the question' },
    sampled(0.5),
    { role: 'tool', content: '7' },
    sampled(),
  ];
  const runs = tokenRuns(mask('CCCCTTCTTT'), items);
  expect(runs.map(({ start, end, isTrained }) => [start, end, isTrained])).toEqual([
    [0, 4, false],
    [4, 6, true],
    [6, 7, false],
    [7, 10, true],
  ]);
  expect(runs.map(({ messages }) => messages.map(({ role }) => role))).toEqual([
    ['user', 'reply', 'user'],
    ['assistant'],
    ['tool'],
    ['assistant'],
  ]);
  expect(runs[1]!.messages[0]!.reward).toBe(0.5);
  expect(maskReason(runs[0]!)).toBe('input of a user, reply without sampled tokens');
  expect(maskReason(runs[2]!)).toBe('result of a tool');
});

test('runs that do not match the sampled replies have no messages', () => {
  const runs = tokenRuns(mask('CTCTC'), [{ role: 'user', content: 'x' }, sampled()]);
  expect(runs.map(({ messages }) => messages)).toEqual([[], [], [], [], []]);
  expect(maskReason(runs[0]!)).toBe('prompt, or text between replies');
  expect(tokenRuns([], [])).toEqual([]);
});
