import fc from 'fast-check';
import { expect, test } from 'vitest';

import { diffWords } from './diff-words.ts';

test('kept, removed and added words are separate parts', () => {
  expect(diffWords('The ship sails home.', 'The old ship is home.')).toEqual([
    { kind: 'same', text: 'The ' },
    { kind: 'added', text: 'old ' },
    { kind: 'same', text: 'ship ' },
    { kind: 'removed', text: 'sails' },
    { kind: 'added', text: 'is' },
    { kind: 'same', text: ' home.' },
  ]);
  expect(diffWords('', '')).toEqual([]);
  expect(diffWords('a', '')).toEqual([{ kind: 'removed', text: 'a' }]);
});

test('the parts add up to both texts again', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '\n', '.', 'ü') });
  fc.assert(
    fc.property(text, text, (first, second) => {
      const parts = diffWords(first, second);
      const without = (kind: string) =>
        parts
          .filter((part) => part.kind !== kind)
          .map((part) => part.text)
          .join('');
      expect(without('added')).toBe(first);
      expect(without('removed')).toBe(second);
    }),
  );
});

test('very long texts are not compared word by word', () => {
  const long = 'x y '.repeat(5000);
  expect(diffWords(`a${long}`, `b${long}c`).map(({ kind }) => kind)).toEqual(['removed', 'added']);
});
