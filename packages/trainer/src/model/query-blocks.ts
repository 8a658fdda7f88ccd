import assert from 'node:assert/strict';
import type { TokenRange } from './token-range.ts';

/** Consecutive queries and every key that any of them may see. */
export interface QueryBlock {
  /** Row indices start ≤ i < end. */
  readonly start: number;
  readonly end: number;
  /** [K] ascending row indices: ancestors of the first query, then the queries. */
  readonly keys: Int32Array;
  /** [K] row index one past the last descendant of each key: key k is visible to query i if k ≤ i < ends[k]. */
  readonly ends: Int32Array;
  /** Null without a sliding window. */
  readonly window: {
    /** [Q] of the queries. */
    readonly positions: Int32Array;
    /** [K] position from which on a key is not seen. */
    readonly ends: Int32Array;
  } | null;
}

/** Tokens of a depth-first row. */
export interface RowTree {
  /** [T] row index of the token before each; negative: none. */
  readonly parents: Int32Array;
  /** [T] see `subtreeEnds`. */
  readonly ends: Int32Array;
}

/** A sliding window over the positions of a row. */
export interface RowWindow {
  readonly tokens: number;
  /** [T] of the row. */
  readonly positions: Int32Array;
}

/**
 * Cuts a range of a depth-first row into query blocks. The descendants of a token follow it without a gap, so
 * its visibility is one interval, and an ancestor of a query is in the query's block or an ancestor of the
 * block's first query. Memory is O(T) per block.
 *
 * @param sizeAt maximum queries of a block that starts at a token
 * @param window leaves out the ancestors that no query of a block sees. Default: none
 */
export function queryBlocks(
  { parents, ends }: RowTree,
  range: TokenRange,
  sizeAt: (token: number) => number,
  window: RowWindow | null = null,
): QueryBlock[] {
  const blocks: QueryBlock[] = [];
  for (let start = range.start; start < range.end; start = blocks.at(-1)!.end) {
    const size = sizeAt(start);
    let end = Math.min(start + Math.ceil(size / 2), range.end);
    // Another branch starts another half-full block: the two would not see each other.
    while (end < Math.min(start + size, range.end) && parents[end] === end - 1) end++;
    const positions = window?.positions.slice(start, end) ?? new Int32Array();
    const firstSeen = window === null ? -Infinity : Math.min(...positions) - window.tokens + 1;
    const keys: number[] = [];
    for (let token = parents[start]!; token >= 0; token = parents[token]!) {
      if (window !== null && window.positions[token]! < firstSeen) break;
      keys.push(token);
    }
    keys.reverse();
    for (let token = start; token < end; token++) keys.push(token);
    blocks.push({
      start,
      end,
      keys: Int32Array.from(keys),
      ends: Int32Array.from(keys, (key) => ends[key]!),
      window:
        window === null
          ? null
          : { positions, ends: Int32Array.from(keys, (key) => window.positions[key]! + window.tokens) },
    });
  }
  return blocks;
}

/**
 * @param parents [T] of a row, see `PackedRow`
 * @returns [T] row index one past the last descendant of each token
 */
export function subtreeEnds(parents: Int32Array): Int32Array {
  const ends = new Int32Array(parents.length);
  for (let token = parents.length - 1; token >= 0; token--) {
    ends[token] = Math.max(ends[token]!, token + 1);
    const parent = parents[token]!;
    assert(parent < token, `token ${token} of the row comes before its parent ${parent}`);
    if (parent >= 0) ends[parent] = Math.max(ends[parent]!, ends[token]!);
  }
  // A token outside the subtree of the one before it would make that subtree's interval wrong.
  parents.forEach((parent, token) => {
    if (token > 0 && parent !== token - 1) {
      for (let open = parents[token - 1]!; open !== parent; open = parents[open]!) {
        assert(
          open >= 0,
          `the row is not in depth-first order: token ${token} continues ${parent} after the end of its branch`,
        );
      }
    }
  });
  return ends;
}

// Added to the score of a hidden key: far below any score, but finite, so that nothing becomes NaN.
const HIDDEN = -1e30;

/** Addends to the scores, [Q, K]: 0 if the query may see the key. */
export function treeMask({ start, end, keys, ends, window }: QueryBlock, mask: Float32Array): void {
  mask.fill(0);
  const hide = (key: number, first: number, last: number) => {
    for (let query = first; query < last; query++) mask[(query - start) * keys.length + key] = HIDDEN;
  };
  for (let key = 0; key < keys.length; key++) {
    hide(key, start, keys[key]!);
    hide(key, Math.max(start, ends[key]!), end);
    if (window === null) continue;
    for (let query = start; query < end; query++)
      if (window.positions[query - start]! >= window.ends[key]!) hide(key, query, query + 1);
  }
}
