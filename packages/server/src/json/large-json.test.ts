import { describe, expect, test } from 'vitest';

import { placeOfInfinity } from './infinite-numbers.ts';
import { isDeeperThan } from './json-depth.ts';
import { LARGE_JSON_CHARACTERS, mayBeDeeperThan, mayHoldInfinity } from './large-json.ts';

/** The same value behind so much text that it is large. */
const large = (text: string) => `{"pad":"${'x'.repeat(LARGE_JSON_CHARACTERS)}","value":${text}}`;
const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;

describe('depth', () => {
  test.each([0, 2, 8, 10])('%i levels are told from more', (levels) => {
    const text = large(nested(levels));
    for (const limit of [levels, levels + 1, levels + 2])
      expect(mayBeDeeperThan(text, limit)).toBe(isDeeperThan(JSON.parse(text), limit));
  });

  test.each([
    '"[[[[[[[["',
    String.raw`"\"[[[[[[[["`,
    String.raw`{"\\[[[[\"[[[[":["{{{{{{{{"]}`,
    String.raw`"[[[[\\", "[[[[\\\"[[[["`,
    '"{{{{{{{{", []',
  ])('brackets in texts are no levels: %s', (text) => {
    const list = large(`[${text}]`);
    expect(isDeeperThan(JSON.parse(list), 4)).toBe(false);
    expect(mayBeDeeperThan(list, 4)).toBe(false);
  });

  test('many side by side are no levels', () => {
    const many = Array.from({ length: 1000 }, () => '{"a":[]}').join(',');
    expect(mayBeDeeperThan(large(`[${many}]`), 4)).toBe(false);
    expect(mayBeDeeperThan(large(`[${many}]`), 3)).toBe(true);
  });

  test('of a small text the values are looked at', () => {
    expect(mayBeDeeperThan('1', 4)).toBe(true);
    expect(mayHoldInfinity('1')).toBe(true);
  });
});

describe('infinity', () => {
  test.each([
    '1e999',
    '-1e+400',
    '1E309',
    '0.1e0400',
    '2e308',
    '1'.repeat(310),
    `${'9'.repeat(308)}e1`,
    `${'9'.repeat(210)}e99`,
    `-${'9'.repeat(309)}`,
  ])('%s is not missed', (text) => {
    expect(placeOfInfinity(JSON.parse(large(text)))).not.toBeNull();
    expect(mayHoldInfinity(large(text))).toBe(true);
  });

  test.each(['1', '1e99', '1e-400', '-0.5', '"infinity"', '9'.repeat(199)])('%s is none', (text) => {
    expect(placeOfInfinity(JSON.parse(large(text)))).toBeNull();
    expect(mayHoldInfinity(large(text))).toBe(false);
  });
});
