import { expect, test } from 'vitest';
import { queryBlocks, subtreeEnds, treeMask } from './query-blocks.ts';

// 0 ─ 1 ─ 2 ─ 3      the branch 4 ─ 5 leaves after 1; 6 is a second root
//      └─ 4 ─ 5
const PARENTS = Int32Array.of(-1, 0, 1, 2, 1, 4, -1);

const blocksOf = (size: number, range = { start: 0, end: PARENTS.length }) =>
  queryBlocks({ parents: PARENTS, ends: subtreeEnds(PARENTS) }, range, () => size);

test.each([1, 2, 3, 4, 6, 14])('blocks of at most %d queries show each query its ancestors and itself', (size) => {
  const blocks = blocksOf(size);
  expect(blocks.every(({ start, end }) => end - start <= size)).toBe(true);
  expect(blocks.flatMap(({ start, end }) => Array.from({ length: end - start }, (_, i) => start + i))).toEqual([
    ...PARENTS.keys(),
  ]);
  const visible = blocks.flatMap((block) => {
    const mask = new Float32Array((block.end - block.start) * block.keys.length).fill(NaN);
    treeMask(block, mask);
    return Array.from({ length: block.end - block.start }, (_, query) =>
      Array.from(block.keys).filter((_key, key) => mask[query * block.keys.length + key] === 0),
    );
  });
  expect(visible).toEqual([[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 4], [0, 1, 4, 5], [6]]);
});

test.each([1, 2, 3, 4, 6, 14])('blocks of at most %d queries show each query the last tokens of a window', (size) => {
  const positions = Int32Array.of(0, 1, 2, 3, 2, 3, 0);
  const visibleIn = (tokens: number) =>
    queryBlocks({ parents: PARENTS, ends: subtreeEnds(PARENTS) }, { start: 0, end: 7 }, () => size, {
      tokens,
      positions,
    }).flatMap((block) => {
      const mask = new Float32Array((block.end - block.start) * block.keys.length).fill(NaN);
      treeMask(block, mask);
      return Array.from({ length: block.end - block.start }, (_, query) =>
        Array.from(block.keys).filter((_key, key) => mask[query * block.keys.length + key] === 0),
      );
    });
  expect(visibleIn(1)).toEqual([[0], [1], [2], [3], [4], [5], [6]]);
  expect(visibleIn(2)).toEqual([[0], [0, 1], [1, 2], [2, 3], [1, 4], [4, 5], [6]]);
  expect(visibleIn(3)).toEqual([[0], [0, 1], [0, 1, 2], [1, 2, 3], [0, 1, 4], [1, 4, 5], [6]]);
  expect(visibleIn(9)).toEqual([[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 4], [0, 1, 4, 5], [6]]);
});

test('a block of a window has only the keys that it shows', () => {
  const row = Int32Array.from({ length: 100 }, (_, token) => token - 1);
  const window = { tokens: 10, positions: row.map((parent) => parent + 1) };
  const blocks = queryBlocks({ parents: row, ends: subtreeEnds(row) }, { start: 0, end: 100 }, () => 20, window);
  expect(blocks.map(({ keys }) => [keys[0], keys.length])).toEqual([
    [0, 20],
    [11, 29],
    [31, 29],
    [51, 29],
    [71, 29],
  ]);
});

test('a half full block ends at the start of a branch', () => {
  expect(blocksOf(6).map(({ start, end }) => [start, end])).toEqual([
    [0, 4],
    [4, 7],
  ]);
});
