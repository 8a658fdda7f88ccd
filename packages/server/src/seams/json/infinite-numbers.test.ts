import { expect, test } from 'vitest';

import { placeOfInfinity } from './infinite-numbers.ts';

test.each([
  ['{"a": [1, {"b": 1e999}]}', ['a', 1, 'b']],
  ['{"a": 1, "b": -1e400, "c": 1e999}', ['b']],
  ['[[], {}, 1e309]', [2]],
  ['1e999', []],
])('%s: at %j', (text, place) => {
  expect(placeOfInfinity(JSON.parse(text))).toEqual(place);
});

test.each(['{"a": [1, null, "1e999", true, {"b": 1.7976931348623157e308}]}', '[]', 'null', '"Infinity"', '-0'])(
  '%s: none',
  (text) => {
    expect(placeOfInfinity(JSON.parse(text))).toBeNull();
  },
);
