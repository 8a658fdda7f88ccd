import { expect, test } from 'vitest';

import { entriesOf, keysOf, objectInOrder, parseInOrder, writeInOrder } from './key-order.ts';

test.each([
  '{"b":1,"10":{"2":[{"x":0,"1":null}],"a":"\\"1\\":"},"2":"k"}',
  '{"__proto__":1,"1":2}',
  '[{"k":1},"{\\"a\\":1,\\"0\\":2}"]',
  '{}',
])('%s is written as it was read', (text) => {
  expect(writeInOrder(parseInOrder(text))).toBe(text);
  expect(parseInOrder(text)).toEqual(JSON.parse(text));
});

test('a key may be written with escapes, and may come twice', () => {
  expect(writeInOrder(parseInOrder(String.raw`{"b":1,"\u0031":2,"b":3}`))).toBe('{"b":3,"1":2}');
});

test('an object has the given order, and its own if no keys are integers', () => {
  expect(
    keysOf(
      objectInOrder([
        ['b', 1],
        ['1', 2],
      ]),
    ),
  ).toEqual(['b', '1']);
  expect(
    entriesOf(
      objectInOrder([
        ['b', 1],
        ['1', 2],
        ['b', 3],
      ]),
    ),
  ).toEqual([
    ['b', 3],
    ['1', 2],
  ]);
  expect(keysOf({ b: 1, a: 2 })).toEqual(['b', 'a']);
  expect(
    writeInOrder({
      a: undefined,
      b: objectInOrder([
        ['x', 1],
        ['0', undefined],
      ]),
    }),
  ).toBe('{"b":{"x":1}}');
});
