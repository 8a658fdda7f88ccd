import { expect, test } from 'vitest';

import { checkNestingDepth } from './nesting-depth.ts';

const MAX_DEPTH = 128;

function nested(levels: number, around: (value: unknown) => unknown): unknown {
  let value: unknown = 'x';
  for (let level = 0; level < levels; level++) value = around(value);
  return value;
}

test.each<[string, (value: unknown) => unknown]>([
  ['arrays', (value) => [1, value]],
  ['objects', (value) => ({ a: 1, b: value })],
  ['Maps', (value) => new Map<string, unknown>([['1', value]])],
])('%s may be nested so deep and no deeper', (_name, around) => {
  expect(() => checkNestingDepth(nested(MAX_DEPTH, around))).not.toThrow();
  expect(() => checkNestingDepth(nested(MAX_DEPTH + 1, around))).toThrow(/nested 128 levels deep/);
  expect(() => checkNestingDepth(nested(1_000_000, around))).toThrow(/nested 128 levels deep/);
});

test.each([undefined, null, 'text', 7, [], {}, new Map()])('%j is not nested', (value) => {
  expect(() => checkNestingDepth(value)).not.toThrow();
});
