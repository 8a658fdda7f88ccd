import { expect, test } from 'vitest';
import { SpecialTokens } from './special-tokens.ts';

const tokens = new SpecialTokens([
  { id: 1, text: '<a>' },
  { id: 2, text: '<a><b>' },
  { id: 3, text: '' },
  { id: 4, text: '.*+?^${}()|[]\\/-' },
]);

test('splits at the longest token, and keeps the text in between', () => {
  expect(tokens.split('x<a><b>y<a>')).toEqual([
    { kind: 'plain', text: 'x' },
    { kind: 'special', id: 2 },
    { kind: 'plain', text: 'y' },
    { kind: 'special', id: 1 },
  ]);
  expect(tokens.split('')).toEqual([]);
});

test('a token text is not a pattern', () => {
  expect(tokens.split('.*+?^${}()|[]\\/-')).toEqual([{ kind: 'special', id: 4 }]);
  expect(tokens.split('aaa')).toEqual([{ kind: 'plain', text: 'aaa' }]);
});

test('no tokens, no split', () => {
  expect(new SpecialTokens([]).split('<a>')).toEqual([{ kind: 'plain', text: '<a>' }]);
});
