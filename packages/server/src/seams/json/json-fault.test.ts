import fc from 'fast-check';
import { expect, test } from 'vitest';

import { jsonFaultPosition } from './json-fault.ts';

test.each<[string, number]>([
  ['{"messages": [},', 14],
  ['{"messages": ', 13],
  ['', 0],
  ['[1, 2', 5],
  ['[1,]', 3],
  ['{"a": 1,}', 8],
  ['{a: 1}', 1],
  ["{'a': 1}", 1],
  ['{"a" 1}', 5],
  ['[1 2]', 3],
  ['NaN', 0],
  ['[Infinity]', 1],
  ['{"a": 01}', 7],
  ['"\\x"', 1],
  ['"a\nb"', 2],
  ['{} {}', 3],
  ['[nul]', 1],
])('%j goes wrong at %d', (text, position) => {
  expect(() => JSON.parse(text)).toThrow(SyntaxError);
  expect(jsonFaultPosition(text)).toBe(position);
});

test('valid JSON has no fault', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(jsonFaultPosition(text)).toBe(text.length);
    }),
  );
});

test('a cut is located within its token, and trailing garbage at its start', () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (text, at) => {
      expect(jsonFaultPosition(`${text}#`)).toBe(text.length);
      const cut = text.slice(0, at % (text.length + 1));
      // The longest token that is read in one piece is an escape, `\\u1234`.
      expect(cut.length - jsonFaultPosition(cut)).toBeLessThanOrEqual(5);
    }),
  );
});
