import assert from 'node:assert/strict';
import type { PackedRow } from './policy-model.ts';

/** Consecutive queries of a row and every key that any of them may see. */
export interface QueryBlock {
  /** Queries are the row indices start ≤ i < end. */
  readonly start: number;
  readonly end: number;
  /** [K] ascending row indices: the ancestors of the first query, then the queries themselves. */
  readonly keys: Int32Array;
  /** [K] row index one past the last descendant of each key: key k is visible to query i when k ≤ i < ends[k]. */
  readonly ends: Int32Array;
}

/**
 * Cuts a depth-first row into query blocks.
 *
 * In depth-first order the descendants of a token follow it without a gap. So a token's visibility is one interval, and an
 * ancestor of any query of a block either lies in the block or is an ancestor of its first query. Memory is O(T) a block.
 */
export function queryBlocks(row: Pick<PackedRow, 'parents'>, blockTokens: number): QueryBlock[] {
  const { parents } = row;
  const ends = subtreeEnds(parents);
  const blocks: QueryBlock[] = [];
  for (let start = 0; start < parents.length; start += blockTokens) {
    const end = Math.min(start + blockTokens, parents.length);
    const keys: number[] = [];
    for (let token = parents[start]!; token >= 0; token = parents[token]!) keys.push(token);
    keys.reverse();
    for (let token = start; token < end; token++) keys.push(token);
    blocks.push({ start, end, keys: Int32Array.from(keys), ends: Int32Array.from(keys, (key) => ends[key]!) });
  }
  return blocks;
}

/** [T] row index one past the last descendant of each token. */
function subtreeEnds(parents: Int32Array): Int32Array {
  const ends = new Int32Array(parents.length);
  for (let token = parents.length - 1; token >= 0; token--) {
    ends[token] = Math.max(ends[token]!, token + 1);
    const parent = parents[token]!;
    assert(parent < token, `token ${token} of the row comes before its parent ${parent}`);
    if (parent >= 0) ends[parent] = Math.max(ends[parent]!, ends[token]!);
  }
  // A token outside the subtree of the one before it would make that subtree's interval lie.
  parents.forEach((parent, token) => {
    if (token > 0 && parent !== token - 1) {
      for (let open = parents[token - 1]!; open !== parent; open = parents[open]!) {
        assert(
          open >= 0,
          `the row is not in depth-first order: token ${token} continues ${parent}, whose branch had ended`,
        );
      }
    }
  });
  return ends;
}
