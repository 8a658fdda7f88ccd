import { expect, test } from 'vitest';
import { packTrie } from '../testing/pack-trie.ts';
import { rowChains } from './row-chains.ts';

test('a chain is as long as its tokens follow each other, and splits with its sequence', () => {
  const sequence = (...tokenIds: number[]) => ({ tokenIds, numPrompt: 1 });
  const row = packTrie([
    [sequence(1, 2, 3, 4), sequence(1, 2, 3, 5, 6), sequence(1, 2, 3, 5, 7), sequence(1, 8)],
    [sequence(1, 2)],
  ]);
  expect([...row.tokenIds]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 1, 2]);
  expect(rowChains(row)).toEqual([
    { start: 0, end: 4, parent: -1, depth: 0 },
    { start: 4, end: 6, parent: 0, depth: 3 },
    { start: 6, end: 7, parent: 1, depth: 4 },
    { start: 7, end: 8, parent: 0, depth: 1 },
    { start: 8, end: 10, parent: -1, depth: 0 },
  ]);
});
