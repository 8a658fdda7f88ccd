import { expect, test } from 'vitest';

import { listingOf, tableOf } from './table.ts';

const COLUMNS = [{ title: 'name' }, { title: 'steps', isNumber: true }, { title: 'state' }];

test('columns are aligned, numbers at the right, and nothing trails', () => {
  expect(
    tableOf(
      COLUMNS,
      [
        ['long-name', '7', ''],
        ['x', '12', 'running'],
      ],
      Infinity,
    ),
  ).toBe(['name       steps  state', 'long-name      7', 'x             12  running', ''].join('\n'));
});

test('in a narrow terminal the widest column is cut', () => {
  const text = tableOf(COLUMNS, [['a-name-that-is-long-indeed', '7', 'ok']], 24);
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(24);
  expect(text).toContain('…');
});

test('columns keep six characters however narrow the terminal is', () => {
  const [, row] = tableOf(COLUMNS, [['a-name-that-is-long', '7', 'a-state-that-is-long']], 3).split('\n');
  expect(row).toBe('a-nam…      7  a-sta…');
});

test('text of others moves no cursor', () => {
  expect(tableOf([{ title: 'name' }], [['two\nlines']], Infinity)).toBe('name\ntwo lines\n');
});

test('columns are aligned after wide characters, and none is cut in two', () => {
  expect(
    tableOf(
      COLUMNS,
      [
        ['火车站', '7', 'ok'],
        ['🚂🚃', '8', 'ok'],
        ['e\u0301', '9', 'ok'],
      ],
      Infinity,
    ),
  ).toBe(['name    steps  state', '火车站      7  ok', '🚂🚃        8  ok', 'e\u0301           9  ok', ''].join('\n'));
  expect(tableOf([{ title: 'name' }], [['🚂🚃🚃🚃🚃']], 8)).toBe('name\n🚂🚃🚃…\n');
});

test('a listing has names and values', () => {
  expect(
    listingOf(
      [
        ['id', 'x'],
        ['base model', 'y'],
      ],
      Infinity,
    ),
  ).toBe('id          x\nbase model  y\n');
});
