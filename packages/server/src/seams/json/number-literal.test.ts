import { expect, test } from 'vitest';

import { numberLiteralAt } from './number-literal.ts';

const BIG = '9223372036854775807';

test.each([
  [`{"seed":${BIG}}`, ['seed'], BIG],
  [` { "a" : [ 1 , { "seed" : 1 } , "}" , "\\"" ] , "seed" : -${BIG} , "z" : null } `, ['seed'], `-${BIG}`],
  [`{"seed": 1, "seed": ${BIG}}`, ['seed'], BIG],
  [`{"seed": ${BIG}, "seed": 1}`, ['seed'], '1'],
  [`{"s\\u0065ed": ${BIG}}`, ['seed'], BIG],
  [`{"a": {"seed": ${BIG}}, "seed": 2}`, ['a', 'seed'], BIG],
  [`{"a": {"b": {}}, "c": [], "d": true, "seed": 1e18}`, ['seed'], '1e18'],
  ['{"a": {"seed": 1}}', ['seed'], null],
  ['{"seed": "1"}', ['seed'], null],
  ['{"seed": {"a": 1}}', ['seed'], null],
  ['{"a": 1}', ['a', 'seed'], null],
  ['{}', ['seed'], null],
  ['[1]', ['seed'], null],
])('%s at %j: %j', (text, place, literal) => {
  JSON.parse(text);
  expect(numberLiteralAt(text, place)).toBe(literal);
});
