import { expect, test } from 'vitest';

import { columnsOf, counted, cutTo, oneLine, replyFor } from './printable.ts';

test('text of others cannot move the cursor or reverse the text around it', () => {
  expect(oneLine('a\u001b[2Jb\r\nc\u0007\u009bd\u2028e')).toBe('ab c d e');
  expect(oneLine('delete \u202egpj.exe\u2066')).toBe('delete \\u202egpj.exe\\u2066');
  expect(oneLine('a\u200eb\u200f\u061cc')).toBe('a\\u200eb\\u200f\\u061cc');
  expect(oneLine('שלום 👩‍👩‍👧')).toBe('שלום 👩‍👩‍👧');
});

test('a terminal gets only the text of a reply, and a file the unchanged reply', () => {
  const reply = '\u001b]52;c;aGk=\u0007one\n\ttwo\u009b2J\r';
  expect(replyFor({ isTTY: true }, reply)).toBe(']52;c;aGk=one\n\ttwo2J');
  expect(replyFor({}, reply)).toBe(reply);
});

test.each([
  ['abc', 3],
  ['火车', 4],
  ['🚂', 2],
  ['e\u0301', 1],
  ['مرحبا', 5],
  ['', 0],
])('%j takes %i columns', (text, columns) => expect(columnsOf(text)).toBe(columns));

test('a line is cut between characters', () => {
  expect(cutTo('🚂🚂🚂', 6)).toBe('🚂🚂🚂');
  expect(cutTo('🚂🚂🚂', 5)).toBe('🚂🚂…');
  expect(cutTo('🚂🚂🚂', 4)).toBe('🚂…');
  expect(cutTo('abc', 0)).toBe('…');
});

test('one is not several', () => {
  expect([0, 1, 2].map((count) => counted(count, 'warning'))).toEqual(['0 warnings', '1 warning', '2 warnings']);
});
