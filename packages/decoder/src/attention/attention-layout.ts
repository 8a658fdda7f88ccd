import type { AttentionPlan } from '@trainyard/native';
import { EXPONENTIAL_CONSTANTS } from '../wasm/exponential.ts';
import { PAGE_SCORE_BYTES, PAGE_TOKENS, partTokens, TILE_QUERIES } from './page-format.ts';
import { maxPromptScores, promptRowsAtOnce } from './prompt-rows.ts';

/** Constant sizes and places, bytes from the start of a memory. */
export interface AttentionLayout {
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  /** [rows, heads · D], float32, each. */
  readonly q: number;
  readonly o: number;
  /** [rows] addresses of page tables, and the number of keys each row sees. */
  readonly tables: number;
  readonly numKeys: number;
  /** [tiles] each: see {@link RowTiles}. */
  readonly firstRows: number;
  readonly endRows: number;
  readonly sharedPages: number;
  /**
   * Keys and values of a prompt's key heads, [key heads, tokens, D] each: as many heads as fit in the room for one
   * head of the longest sequence.
   */
  readonly promptKeys: number;
  readonly promptValues: number;
  readonly constants: number;
  /** [heads] scores of sinks, float32; -Infinity: none. */
  readonly sinks: number;
  /** Memory per thread, and its size. */
  readonly threads: number;
  readonly threadBytes: number;
}

export function planAttention(sizes: {
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  readonly maxRows: number;
  readonly maxPages: number;
  readonly numThreads: number;
}): { layout: AttentionLayout; end: number } {
  const { numHeads, numKvHeads, headSize, maxRows, maxPages, numThreads } = sizes;
  const group = numHeads / numKvHeads;
  let end = 0;
  const take = (bytes: number): number => {
    const start = end;
    end += aligned(bytes);
    return start;
  };
  const rowBytes = 4 * numHeads * headSize;
  const promptBytes = 4 * maxPages * PAGE_TOKENS * headSize;
  const threadBytes = Math.max(
    scoresOfTile(headSize) + maxPages * PAGE_SCORE_BYTES,
    scoresOfPrompt(headSize, group) + 4 * maxPromptScores(group, maxPages),
  );
  const layout = {
    numHeads,
    numKvHeads,
    headSize,
    q: take(maxRows * rowBytes),
    o: take(maxRows * rowBytes),
    tables: take(4 * maxRows),
    numKeys: take(4 * maxRows),
    firstRows: take(4 * maxRows),
    endRows: take(4 * maxRows),
    sharedPages: take(4 * maxRows),
    promptKeys: take(promptBytes),
    promptValues: take(promptBytes),
    constants: take(4 * EXPONENTIAL_CONSTANTS.length),
    sinks: take(4 * numHeads),
    threads: take(numThreads * threadBytes),
    threadBytes,
  };
  return { layout, end };
}

/** Places of a thread's buffers for tiles, bytes. */
export function tilePlaces({ threads, threadBytes, headSize }: AttentionLayout, thread: number) {
  const queries = threads + thread * threadBytes;
  const bytes = aligned(4 * TILE_QUERIES * headSize);
  return {
    /**
     * [{@link TILE_QUERIES}, D], float32, each: queries, the sums of the current part, and the sums of earlier
     * parts.
     */
    queries,
    part: queries + bytes,
    sums: queries + 2 * bytes,
    /** [{@link TILE_QUERIES}] */
    weights: queries + 3 * bytes,
    /** [pages, {@link TILE_QUERIES}, 16] */
    scores: queries + scoresOfTile(headSize),
  };
}

/** The layout for a thread's native kernels. */
export function kernelPlan(layout: AttentionLayout, thread: number): AttentionPlan {
  return { ...layout, ...tilePlaces(layout, thread), partPages: partTokens(layout.headSize) / PAGE_TOKENS };
}

/** Places of a thread's buffers for prompt rows, in the same memory as those for tiles. */
export function promptPlaces(layout: AttentionLayout, thread: number) {
  const { threads, threadBytes, headSize, numHeads, numKvHeads } = layout;
  const group = numHeads / numKvHeads;
  const queries = threads + thread * threadBytes;
  const bytes = aligned(4 * group * promptRowsAtOnce(group, 1) * headSize);
  return {
    /** [n, D], float32, each. */
    queries,
    sums: queries + bytes,
    /** [n] */
    weights: queries + 2 * bytes,
    /** [n, tokens] */
    scores: queries + scoresOfPrompt(headSize, group),
  };
}

const scoresOfTile = (headSize: number): number => 3 * aligned(4 * TILE_QUERIES * headSize) + aligned(4 * TILE_QUERIES);
function scoresOfPrompt(headSize: number, group: number): number {
  const maxQueries = group * promptRowsAtOnce(group, 1);
  return 2 * aligned(4 * maxQueries * headSize) + aligned(4 * maxQueries);
}

const aligned = (bytes: number): number => 64 * Math.ceil(bytes / 64);
