import { stripVTControlCharacters } from 'node:util';

import { expect, test } from 'vitest';

import { hasColours, listingOf, tableOf } from './table.ts';
import { cutInMiddle, wrapWords } from './printable.ts';

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

test('a name is cut in its middle, so that names of a series stay apart', () => {
  const rows = [1, 2, 3].map((seed) => [`research/sweep-learning-rate-0.001-seed-${seed}`, '7', 'ok']);
  const lines = tableOf(COLUMNS, rows, 36).trimEnd().split('\n');
  expect(new Set(lines).size).toBe(4);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(36);
  expect(cutInMiddle('research/sweep-seed-1', 13)).toBe('resear…seed-1');
  expect(cutInMiddle('火车站火车站火车站', 9)).toBe('火车…车站');
});

test('a column with one value for all rows is left out of a narrow table, and a status stays whole', () => {
  const columns = [{ title: 'name' }, { title: 'base model', isOptional: true }, { title: 'status', isWhole: true }];
  const rows = ['first', 'second'].map((name) => [name.repeat(5), 'HuggingFaceTB/SmolLM2', 'succeeded (2 warnings)']);
  expect(tableOf(columns, rows, 48)).not.toContain('base model');
  expect(tableOf(columns, rows, Infinity)).toContain('base model');
  expect(tableOf(columns, rows, 34)).toContain('succeeded (2 warnings)');
  expect(tableOf(columns, [rows[0]!, ['x', 'another', 'failed']], 48)).toContain('base model');
});

test('colours neither move columns nor appear without a terminal, or with NO_COLOR', () => {
  const columns = [{ title: 'name', colour: () => 'red' as const }, { title: 'state' }];
  const plain = tableOf(columns, [['x', 'ok']], Infinity);
  const coloured = tableOf(columns, [['x', 'ok']], Infinity, true);
  expect(coloured).toContain('\u001b[31mx\u001b[39m');
  expect(stripVTControlCharacters(coloured)).toBe(plain);
  const terminal = { isTTY: true, hasColors: () => true } as unknown as NodeJS.WriteStream;
  expect(hasColours(terminal, {})).toBe(true);
  expect(hasColours(terminal, { NO_COLOR: '1' })).toBe(false);
  expect(hasColours({ isTTY: false } as NodeJS.WriteStream, {})).toBe(false);
});

test('messages are wrapped at blanks, never inside a word', () => {
  expect(wrapWords('trainyard: no trained model demo/short-answers', 20)).toBe(
    'trainyard: no\ntrained model\ndemo/short-answers',
  );
  expect(wrapWords('a-word-that-is-longer-than-the-line and more', 10)).toBe(
    'a-word-that-is-longer-than-the-line\nand more',
  );
  expect(wrapWords('BAD  model file: there is none', 20, '     ')).toBe('BAD  model file:\n     there is none');
  expect(wrapWords('short', Infinity)).toBe('short');
});
