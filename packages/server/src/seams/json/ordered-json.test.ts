import fc from 'fast-check';
import { expect, test } from 'vitest';

import { JsonText, toOrderedJson } from './ordered-json.ts';

test('data is written as by JSON.stringify, byte for byte, also next to a Map', () => {
  let numCases = 0;
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.anything()), (value) => {
      numCases += 1;
      expect(toOrderedJson(value)).toBe(JSON.stringify(value));
      // A Map anywhere makes the whole value take the other path.
      const beside = toOrderedJson({ ...value, last: [new Map()] });
      expect(beside).toBe(JSON.stringify({ ...value, last: [{}] }));
    }),
    { numRuns: 1000 },
  );
  console.log(`ordered JSON: ${numCases} values as JSON.stringify writes them`);
});

test.each([
  [{ a: undefined, b: [undefined, null], c: Number.NaN, d: -0 }],
  [{ '\u2028': '\ud800', __proto__: null, toString: 'x' }],
  ['"'],
  [[]],
  [{}],
])('%j too', (value) => {
  expect(toOrderedJson(value)).toBe(JSON.stringify(value));
  expect(toOrderedJson([value, new Map()])).toBe(JSON.stringify([value, {}]));
});

test('a Map keeps its order, at any depth, with keys that look like numbers', () => {
  const map = new Map<string, unknown>([
    ['900', 1],
    ['4', new Map([['b"', null]])],
    ['31', [new Map()]],
  ]);
  expect(toOrderedJson({ x: [map] })).toBe('{"x":[{"900":1,"4":{"b\\"":null},"31":[{}]}]}');
  // A plain object cannot hold this order.
  expect(JSON.stringify(Object.fromEntries(map))).toMatch(/^\{"4"/);
});

test('a JSON text is copied unchanged', () => {
  const text = new JsonText('{"id": 1234567890123456789, "f": 1.0, "10": 1, "2": 2}');
  expect(toOrderedJson(text)).toBe(text.text);
  expect(toOrderedJson({ a: [text], b: 1 })).toBe(`{"a":[${text.text}],"b":1}`);
});

test('a large answer is written whole, at little more cost than by JSON.stringify', () => {
  const top = Array.from({ length: 20 }, (_, i) => ({ token: `token_id:${i}`, logprob: -i / 7, bytes: [1, 2, 3] }));
  const prompt = [null, new Map([['900', { rank: 1 }]])];
  const content = Array.from({ length: 8192 }, () => ({ ...top[0], top_logprobs: top }));
  const timed = (write: (value: unknown) => string) => {
    const start = performance.now();
    const { length } = write({ content, prompt });
    return { length, ms: performance.now() - start };
  };
  const ordered = timed(toOrderedJson);
  const native = timed(JSON.stringify);
  console.log(
    `${(native.length / 1e6).toFixed(1)} MB: ${ordered.ms.toFixed(0)} ms, JSON.stringify ${native.ms.toFixed(0)} ms`,
  );
  // JSON.stringify writes the Map as {}.
  expect(ordered.length).toBe(native.length + '"900":{"rank":1}'.length);
});
