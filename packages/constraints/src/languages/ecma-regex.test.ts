import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allows, BYTES } from '../testing/byte-test-vocabulary.ts';
import { Constraints } from '../constraints.ts';

let constraints: Constraints;
beforeAll(() => {
  constraints = new Constraints(BYTES);
});
afterAll(() => constraints.close());

/** All code points that some class treats specially, and some of each block. */
const CODE_POINTS = Array.from({ length: 0x110000 }, (_, codePoint) => codePoint).filter(
  (codePoint) =>
    (codePoint < 0x300 ||
      (codePoint >= 0x1fff && codePoint < 0x2070) ||
      codePoint % 211 === 0 ||
      [0x1680, 0x3000, 0xfeff].includes(codePoint)) &&
    (codePoint < 0xd800 || codePoint > 0xdfff),
);

describe('an expression has the same meaning as in RegExp', () => {
  test.each([
    '.',
    '\\s',
    '\\S',
    '\\d',
    '\\D',
    '\\w',
    '\\W',
    '[^]',
    '[^a-y\\s]',
    '[\\W\\d_]',
    '[\\x00-\\x1f\\u{1F600}-\\u{1F64F}-]',
  ])('for each character: %s', (pattern) => {
    const expected = new RegExp(`^(?:${pattern})$`, 'u');
    const first = constraints.compile({ kind: 'regex', pattern });
    const different = CODE_POINTS.filter((codePoint) => {
      const character = String.fromCodePoint(codePoint);
      const matcher = first.clone();
      const isAllowed = Buffer.from(character).every((byte) => matcher.accept(byte)) && matcher.canEnd;
      matcher.close();
      return isAllowed !== expected.test(character);
    });
    expect(different.map((codePoint) => codePoint.toString(16))).toEqual([]);
    first.close();
  });

  test.each<[pattern: string, texts: string[]]>([
    ['a{2}b{1,}c{0,2}', ['aab', 'aabbcc', 'ab', 'aabccc']],
    ['(?:a|b(?<n>c|d)?)+?', ['a', 'abcbd', 'c', '']],
    ['[]|x', ['x', '', ']']],
    ['\\u0041\\u{42}\\x43\\cJ\\/\\-\\ud83d\\ude00', ['ABC\n/-😀', 'ABC/-😀']],
    ['\\p{Lu}\\P{Lu}', ['Éx', 'xÉ', 'ÉÉ']],
    ['^(?:ab|cd)$', ['ab', 'cd', 'abcd']],
    ['[\\b\\n-\\r[&~|]', ['\b', '\v', '[', '&', '~', '|', 'b', 'n']],
  ])('in full: %s', (pattern, texts) => {
    // `\-` outside a class, and an escaped surrogate pair as one range, are allowed only without the flag.
    const expected = new RegExp(`^(?:${pattern.replace('\\-', '-')})$`, 'u');
    for (const text of texts)
      expect(allows(constraints, { kind: 'regex', pattern }, text), JSON.stringify(text)).toBe(expected.test(text));
  });

  test.each<[pattern: string, python: string, texts: Record<string, boolean>]>([
    ['(?s)a.b', 's', { 'a\nb': true, ab: false }],
    ['(?i)straße|x', 'i', { STRAßE: true, X: true, y: false }],
    ['\\Aab\\Z', '\\A and \\Z', { ab: true, abc: false }],
    ['x{a}{', 'braces that count nothing', { 'x{a}{': true, x: false }],
  ])('as in Python: %s', (pattern, _what, texts) => {
    for (const [text, isAllowed] of Object.entries(texts))
      expect(allows(constraints, { kind: 'regex', pattern }, text), text).toBe(isAllowed);
  });
});
