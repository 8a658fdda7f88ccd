import { expect, test } from 'vitest';

import { fieldDeeperThan, isDeeperThan, MAX_JSON_DEPTH } from './json-depth.ts';

/** That many nested lists or objects. */
const nested = (levels: number, kind: 'list' | 'object'): unknown =>
  JSON.parse(
    kind === 'list' ? `${'['.repeat(levels)}1${']'.repeat(levels)}` : `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`,
  );

test.each(['list', 'object'] as const)('levels of a %s are counted', (kind) => {
  for (const limit of [0, 1, 2, MAX_JSON_DEPTH]) {
    expect(isDeeperThan(nested(limit, kind), limit)).toBe(false);
    expect(isDeeperThan(nested(limit + 1, kind), limit)).toBe(true);
  }
});

test('the deepest of many members counts', () => {
  const value = { flat: [1, null, 'text', {}], deep: [0, { a: [[]] }], last: 1 };
  expect(isDeeperThan(value, 5)).toBe(false);
  expect(isDeeperThan(value, 4)).toBe(true);
});

test.each([null, 1, 'text', true, undefined])('%s has no levels', (value) => {
  expect(isDeeperThan(value, 0)).toBe(false);
});

test('a value of a million levels is refused at the limit', () => {
  const levels = 1_000_000;
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = [value];
  expect(isDeeperThan(value, MAX_JSON_DEPTH)).toBe(true);
});

test('the place is the first field that is too deep, or the body', () => {
  const body = { model: 'a', tools: nested(3, 'list'), messages: nested(3, 'object') };
  expect(fieldDeeperThan(body, 4)).toBeNull();
  expect(fieldDeeperThan(body, 3)).toEqual(['body', 'tools']);
  expect(fieldDeeperThan(nested(4, 'list'), 3)).toEqual(['body']);
});
