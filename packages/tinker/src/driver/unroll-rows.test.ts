import type { PackedRow } from '@trainyard/trainer';
import { packTrie, randomSource } from '@trainyard/trainer/testing';
import { expect, test } from 'vitest';

import { unrollRows } from './unroll-rows.ts';

/** Trained token of a row with all tokens before it. */
function contextOf({ tokenIds, parents, sources, targets }: PackedRow, i: number): number[] {
  const path: number[] = [];
  for (let node = sources[i]!; node >= 0; node = parents[node]!) path.unshift(tokenIds[node]!);
  return [...path, targets[i]!];
}

test('a shared prompt is computed for each answer, and each trained token once', () => {
  const row = packTrie([
    [
      { tokenIds: [3, 9, 14, 20, 31], numPrompt: 3 },
      { tokenIds: [3, 9, 14, 40], numPrompt: 3 },
    ],
  ]);
  const sequences = unrollRows([row]).map(({ tokens, targets, trained }) => [[...tokens], [...targets], [...trained]]);
  expect(sequences).toEqual([
    [
      [3, 9, 14, 20],
      [9, 14, 20, 31],
      [-1, -1, 0, 1],
    ],
    [
      [3, 9, 14],
      [9, 14, 40],
      [-1, -1, 2],
    ],
  ]);
});

test('a predicted token that is not in the row is the end of a sequence', () => {
  // After token 5 come 6, which continues, and twice an end that took no place.
  const row: PackedRow = {
    tokenIds: Int32Array.of(5, 6),
    positions: Int32Array.of(0, 1),
    parents: Int32Array.of(-1, 0),
    sources: Int32Array.of(0, 0, 0, 1),
    targets: Int32Array.of(2, 6, 2, 7),
  };
  const sequences = unrollRows([row]);
  expect(sequences.map(({ tokens }) => [...tokens])).toEqual([[5, 6], [5], [5]]);
  expect(sequences.flatMap(({ trained }) => [...trained]).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
});

test('rows without trained tokens need no sequence', () => {
  expect(unrollRows([packTrie([[{ tokenIds: [1, 2, 3], numPrompt: 3 }]])])).toEqual([]);
});

test('random tries keep the context of every trained token', () => {
  const random = randomSource(3);
  const below = (n: number): number => Math.floor(((random() + 1) / 2) * n);
  for (let round = 0; round < 100; round++) {
    const groups = Array.from({ length: 1 + below(2) }, () =>
      Array.from({ length: 1 + below(5) }, () => ({
        tokenIds: Array.from({ length: 2 + below(6) }, () => below(3)),
        numPrompt: 1 + below(3),
      })),
    );
    const rows = [packTrie(groups), packTrie(groups.toReversed())];
    const seen = rows.map(() => new Set<number>());
    for (const { row, tokens, targets, trained } of unrollRows(rows)) {
      expect(tokens.length).toBe(targets.length);
      trained.forEach((i, place) => {
        if (i < 0) return;
        expect(seen[row]!.has(i)).toBe(false);
        seen[row]!.add(i);
        expect([...tokens.subarray(0, place + 1), targets[place]!]).toEqual(contextOf(rows[row]!, i));
      });
    }
    expect(seen.map(({ size }) => size)).toEqual(rows.map(({ targets }) => targets.length));
  }
});
