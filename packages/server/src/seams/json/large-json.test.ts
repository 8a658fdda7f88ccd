import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { placeOfInfinity } from './infinite-numbers.ts';
import { isDeeperThan } from './json-depth.ts';
import type { JsonMeasure } from './json-scan.ts';
import { LARGE_JSON_CHARACTERS, mayHoldInfinity, measureLargeJson } from './large-json.ts';

/** The same value after enough text to make it large. */
const large = (text: string) => `{"pad":"${'x'.repeat(LARGE_JSON_CHARACTERS)}","value":${text}}`;
const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;

/** The same counts from the values. */
function numbersOf(value: unknown): { numValues: number; numNames: number } {
  if (typeof value === 'string') return { numValues: 1, numNames: 0 };
  if (typeof value !== 'object' || value === null) return { numValues: 0, numNames: 0 };
  const names = Array.isArray(value) ? [] : Object.keys(value);
  const numbers = { numValues: 1 + names.length, numNames: names.filter((name) => !/^\d{1,7}$/.test(name)).length };
  for (const inner of Object.values(value).map(numbersOf)) {
    numbers.numValues += inner.numValues;
    numbers.numNames += inner.numNames;
  }
  return numbers;
}

/** @param text one value; the padding is subtracted from the result */
function measured(text: string): JsonMeasure {
  const { depth, numValues, numNames } = measureLargeJson(large(text))!;
  return { depth: depth - 1, numValues: numValues - 4, numNames: numNames - 2 };
}

test.each([2, 8, 10])('%i levels are counted', (levels) => {
  const text = nested(levels);
  const { depth } = measured(text);
  expect(depth).toBe(levels);
  expect(isDeeperThan(JSON.parse(text), depth)).toBe(false);
  expect(isDeeperThan(JSON.parse(text), depth - 1)).toBe(true);
});

test.each([
  ['"[[[[[[[["', 1],
  [String.raw`"\"[[[[[[[["`, 1],
  [String.raw`{"\\[[[[\"[[[[":["{{{{{{{{"]}`, 4],
  [String.raw`["[[[[\\", "[[[[\\\"[[[["]`, 3],
  ['["{{{{{{{{", []]', 3],
])('brackets in texts are neither levels nor values: %s', (text, numValues) => {
  const { depth, ...counted } = measured(text);
  expect(isDeeperThan(JSON.parse(text), depth)).toBe(false);
  expect(depth).toBeLessThanOrEqual(2);
  expect(counted.numValues).toBe(numValues);
});

test('many side by side are no levels', () => {
  expect(measured(`[${Array.from({ length: 1000 }, () => '{"a":[]}').join(',')}]`)).toEqual({
    depth: 3,
    numValues: 3_001,
    numNames: 1_000,
  });
});

test('texts, names, lists and objects are counted in any value, and numbers are not', () => {
  const key = fc.oneof(fc.string(), fc.stringMatching(/^[0-9]{1,9}$/));
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      fc.jsonValue(),
      fc.array(tie('value')),
      fc.dictionary(key, tie('value'), { noNullPrototype: true }),
    ),
  }));
  fc.assert(
    fc.property(value, (one) => {
      for (const text of [JSON.stringify(one), JSON.stringify(one, null, 2)])
        expect(measured(text)).toMatchObject(numbersOf(JSON.parse(text)));
    }),
  );
});

test.each([
  ['{"5": 1, "05": 1, "1234567": 1}', 0],
  ['{"12345678": 1}', 1],
  [String.raw`{"-1": 1, "1a": 1, "": 1, "\u0035" : ":"}`, 4],
])('names that are whole numbers of a few digits are none: %s', (text, numNames) => {
  expect(measured(text).numNames).toBe(numNames);
});

test.each(['"', '"\\', '{"a', '["\\"', ']]]]', '"a" "', ',:,'])('invalid JSON is scanned to its end: %s', (text) => {
  expect(measureLargeJson(`${'x'.repeat(LARGE_JSON_CHARACTERS)}${text}`)).not.toBeNull();
});

test('a small text is not measured', () => {
  expect(measureLargeJson('[[]]')).toBeNull();
  expect(mayHoldInfinity('1')).toBe(true);
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
