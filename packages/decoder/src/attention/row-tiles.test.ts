import { expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { PAGE_TOKENS } from './page-format.ts';
import { RowTiles } from './row-tiles.ts';
import type { TileRow } from './row-tiles.ts';

function cut(rows: readonly TileRow[], maxTileRows: number): [rows: number, pages: number][] {
  const tiles = new RowTiles(rows.length);
  tiles.cut(0, rows.length, (row) => rows[row]!, maxTileRows);
  const { length, firstRows, endRows } = tiles;
  expect([...firstRows.subarray(0, length), rows.length]).toEqual([0, ...endRows.subarray(0, length)]);
  return Array.from({ length }, (_, tile) => [endRows[tile]! - firstRows[tile]!, tiles.sharedPages[tile]!]);
}

const pages = (first: number, count: number): number[] => Array.from({ length: count }, (_, i) => first + i);
/** Rollouts of a group: shared pages, then their own, and a partly filled last one. */
const rollouts = (count: number, prefix: readonly number[], own: number, firstOwn: number): TileRow[] =>
  Array.from({ length: count }, (_, i) => ({
    pages: [...prefix, ...pages(firstOwn + i * (own + 1), own + 1)],
    numKeys: (prefix.length + own) * PAGE_TOKENS + 5,
  }));

test('tokens of a prompt form a tile once there is a full page, and share the pages of the first of them', () => {
  const table = pages(0, 4);
  const rows = Array.from({ length: 40 }, (_, i) => ({ pages: table, numKeys: i + 1 }));
  const tiles = cut(rows, 4);
  // Fifteen tokens see no full page; of the next, the first sees one and the last two.
  expect(tiles.slice(0, 15)).toEqual(Array.from({ length: 15 }, () => [1, 0]));
  expect(tiles.slice(15)).toEqual([
    [4, 1],
    [4, 1],
    [4, 1],
    [4, 1],
    [4, 2],
    [4, 2],
    [1, 2],
  ]);
});

test('rollouts of a group share their prompt, however long their own replies are', () => {
  expect(cut(rollouts(8, pages(0, 23), 0, 100), 4)).toEqual([
    [4, 23],
    [4, 23],
  ]);
  expect(cut(rollouts(8, pages(0, 23), 60, 100), 4)).toEqual([
    [4, 23],
    [4, 23],
  ]);
});

test('a group ends a tile, also if all groups start with the same page', () => {
  const system = pages(0, 1);
  const groups = [3, 5].flatMap((count, group) =>
    rollouts(count, [...system, ...pages(10 + 30 * group, 20)], 2, 1000 + 100 * group),
  );
  expect(cut(groups, 4)).toEqual([
    [3, 21],
    [4, 21],
    [1, 23],
  ]);
});

test('rows that share nothing form no group, and see all of their full pages themselves', () => {
  const rows = [pages(0, 3), pages(3, 3), pages(6, 3)].map((table) => ({ pages: table, numKeys: 2 * PAGE_TOKENS + 1 }));
  expect(cut(rows, 4)).toEqual([
    [1, 2],
    [1, 2],
    [1, 2],
  ]);
  expect(cut(rollouts(3, pages(0, 9), 0, 50), 1)).toEqual([
    [1, 9],
    [1, 9],
    [1, 9],
  ]);
});

test('any rows: each is in one tile, and all rows of a tile start with its pages and see them whole', () => {
  const random = randomSource(5);
  const below = (n: number) => Math.floor(((random() + 1) / 2) * n);
  let shared = 0;
  for (let round = 0; round < 200; round++) {
    const rows: TileRow[] = [];
    let free = 100;
    while (rows.length < 30) {
      const prefix = pages(0, below(4)).concat(pages(10 + below(3) * 10, below(6)));
      const count = 1 + below(6);
      const own = below(3);
      rows.push(...rollouts(count, prefix, own, free).map((row) => ({ ...row, numKeys: 1 + below(row.numKeys) })));
      free += count * (own + 1);
    }
    const maxTileRows = 1 + below(5);
    let row = 0;
    for (const [size, sharedPages] of cut(rows, maxTileRows)) {
      expect(size).toBeLessThanOrEqual(maxTileRows);
      const members = rows.slice(row, (row += size));
      for (const member of members) {
        expect(member.pages.slice(0, sharedPages)).toEqual(members[0]!.pages.slice(0, sharedPages));
        expect(member.numKeys).toBeGreaterThanOrEqual(sharedPages * PAGE_TOKENS);
      }
      if (size > 1) shared += sharedPages;
    }
    expect(row).toBe(rows.length);
  }
  expect(shared).toBeGreaterThan(100);
});
