import { expect, test } from 'vitest';
import { shown } from './shown.ts';

test.each<[unknown, string]>([
  ['q_proj', '"q_proj"'],
  [8n, '8'],
  [null, 'null'],
  [undefined, 'nothing'],
  [{ a: [1, { b: true }] }, '{"a":[1,{"b":true}]}'],
])('%o is shown as it is', (value, text) => {
  expect(shown(value)).toBe(text);
});

test('long or deep values are cut', () => {
  const deep: unknown = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  expect(shown(deep)).toBe('[[[["…"]]]]');
  const long = 'x'.repeat(1_000_000);
  const longs = [
    long,
    { [long]: 1 },
    Array.from({ length: 1_000_000 }, () => 0),
    Array.from({ length: 300 }, () => [long]),
  ];
  for (const value of longs) expect(shown(value)).toMatch(/^.{200}…$/);
});
