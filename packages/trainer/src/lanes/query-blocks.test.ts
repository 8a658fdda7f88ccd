import { expect, test } from 'vitest';
import { queryBlocks, subtreeEnds, treeMask } from './query-blocks.ts';

// 0 ─ 1 ─ 2 ─ 3      the branch 4 ─ 5 leaves after 1; 6 is a second root
//      └─ 4 ─ 5
const PARENTS = Int32Array.of(-1, 0, 1, 2, 1, 4, -1);

const blocksOf = (size: number, range = { start: 0, end: PARENTS.length }) =>
  queryBlocks(PARENTS, subtreeEnds(PARENTS), range, () => size);

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

test('a half full block ends at the start of a branch', () => {
  expect(blocksOf(6).map(({ start, end }) => [start, end])).toEqual([
    [0, 4],
    [4, 7],
  ]);
});
