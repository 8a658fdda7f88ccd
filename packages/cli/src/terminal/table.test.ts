import { expect, test } from 'vitest';

import { listingOf, oneLine, tableOf } from './table.ts';

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

test('what others wrote cannot move the cursor', () => {
  expect(oneLine('a\u001b[2Jb\r\nc\u0007\u009bd')).not.toMatch(/\p{Cc}/u);
  expect(tableOf([{ title: 'name' }], [['two\nlines']], Infinity)).toBe('name\ntwo lines\n');
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
