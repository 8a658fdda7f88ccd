import { EXPONENTIAL_CONSTANTS } from '../wasm/exponential.ts';
import { instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory, WasmModule } from '../wasm/web-assembly.ts';
import {
  MAX_QUERIES,
  PAGE_SCORE_BYTES,
  PAGE_TOKENS,
  SCORE_BYTES,
  TILE_QUERIES,
  type AttentionSteps,
  stepsOf,
} from './attention-code.ts';

/** Sizes and places that do not change, bytes from the start of a memory. */
export interface AttentionLayout {
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  /** [rows, heads · D], float32, each. */
  readonly q: number;
  readonly o: number;
  /** [rows] addresses of page tables, and keys each row sees. */
  readonly tables: number;
  readonly numKeys: number;
  /** [tiles + 1] and [tiles]: see {@link RowTiles}. */
  readonly firstRows: number;
  readonly sharedPages: number;
  /** Constants of exponentials. */
  readonly constants: number;
  /** Room for each thread, and its size. */
  readonly threads: number;
  readonly threadBytes: number;
}

/** Keys, or values, that are read for some queries after the other while they are in the first-level cache. */
const BLOCK_BYTES = 32_768;

const tileBytes = (headSize: number): number => 4 * TILE_QUERIES * headSize;
const WEIGHT_BYTES = 64;
/** Room of a thread: a tile's queries and sums, [{@link TILE_QUERIES}, D] each, its weights and its scores. */
const threadBytes = (headSize: number, maxPages: number): number =>
  2 * tileBytes(headSize) + WEIGHT_BYTES + maxPages * PAGE_SCORE_BYTES;

/** @returns the layout, and where it ends */
export function planAttention(sizes: {
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  readonly maxRows: number;
  /** Pages of the longest sequence. */
  readonly maxPages: number;
  readonly numThreads: number;
}): { layout: AttentionLayout; end: number } {
  const { numHeads, numKvHeads, headSize, maxRows, maxPages, numThreads } = sizes;
  let end = 0;
  const room = (bytes: number): number => {
    const start = end;
    end += 64 * Math.ceil(bytes / 64);
    return start;
  };
  const rowBytes = 4 * numHeads * headSize;
  const bytesOfThread = threadBytes(headSize, maxPages);
  const layout = {
    numHeads,
    numKvHeads,
    headSize,
    q: room(maxRows * rowBytes),
    o: room(maxRows * rowBytes),
    tables: room(4 * maxRows),
    numKeys: room(4 * maxRows),
    firstRows: room(4 * (maxRows + 1)),
    sharedPages: room(4 * maxRows),
    constants: room(4 * EXPONENTIAL_CONSTANTS.length),
    threads: room(numThreads * bytesOfThread),
    threadBytes: bytesOfThread,
  };
  return { layout, end };
}

/** Query heads of a key head that are computed at once. */
const headsAtOnce = (numHeads: number, numKvHeads: number): number => Math.min(TILE_QUERIES, numHeads / numKvHeads);
/** Most rows of a tile. */
export const maxTileRows = (numHeads: number, numKvHeads: number): number =>
  Math.floor(TILE_QUERIES / headsAtOnce(numHeads, numKvHeads));

/** Attention of tiles, by one thread in one memory. */
export class TileAttention {
  readonly #layout: AttentionLayout;
  readonly #steps: AttentionSteps;
  readonly #floats: Float32Array;
  readonly #integers: Int32Array;
  readonly #tables: Int32Array;
  readonly #numKeys: Int32Array;
  readonly #firstRows: Int32Array;
  readonly #sharedPages: Int32Array;
  readonly #queries: number;
  readonly #sums: number;
  readonly #weights: number;
  readonly #scores: number;
  readonly #headBytes: number;
  readonly #pagesAtOnce: number;

  /** @param module of `attentionModule(layout.headSize)` */
  constructor(layout: AttentionLayout, module: WasmModule, memory: SharedWasmMemory, thread: number) {
    const { buffer } = memory;
    this.#layout = layout;
    this.#steps = stepsOf(instantiate(module, memory));
    this.#floats = new Float32Array(buffer);
    this.#integers = new Int32Array(buffer);
    this.#tables = new Int32Array(buffer, layout.tables);
    this.#numKeys = new Int32Array(buffer, layout.numKeys);
    this.#firstRows = new Int32Array(buffer, layout.firstRows);
    this.#sharedPages = new Int32Array(buffer, layout.sharedPages);
    this.#queries = layout.threads + thread * layout.threadBytes;
    this.#sums = this.#queries + tileBytes(layout.headSize);
    this.#weights = this.#sums + tileBytes(layout.headSize);
    this.#scores = this.#weights + WEIGHT_BYTES;
    this.#headBytes = 4 * layout.headSize;
    this.#pagesAtOnce = Math.max(1, Math.floor(BLOCK_BYTES / (this.#headBytes * PAGE_TOKENS)));
  }

  /**
   * Outputs of a tile's rows, for the query heads of one key head.
   * @param keys address that a page's offset is added to for its keys of the key head
   * @param values the same for its values
   */
  attend(tile: number, kvHead: number, keys: number, values: number): void {
    const { numHeads, numKvHeads } = this.#layout;
    const group = numHeads / numKvHeads;
    const numAtOnce = headsAtOnce(numHeads, numKvHeads);
    for (let head = 0; head < group; head += numAtOnce) {
      this.#attendHeads(tile, kvHead * group + head, Math.min(numAtOnce, group - head), keys, values);
    }
  }

  #attendHeads(tile: number, head: number, count: number, keys: number, values: number): void {
    const steps = this.#steps;
    const headBytes = this.#headBytes;
    const rowBytes = count * headBytes;
    const [first, end] = [this.#firstRows[tile]!, this.#firstRows[tile + 1]!];
    const shared = this.#sharedPages[tile]!;
    const numQueries = (end - first) * count;
    const { q, o, numHeads, headSize } = this.#layout;
    const factor = 1 / Math.sqrt(headSize);
    for (let row = first, to = this.#queries; row < end; row++, to += rowBytes) {
      steps.scale(q + (row * numHeads + head) * headBytes, to, to + rowBytes, factor);
    }

    const table = this.#tables[first]!;
    this.#overPages(steps.scores, this.#queries, numQueries, table, 0, shared, keys, this.#scores);
    for (let row = first, query = 0; row < end; row++, query += count) {
      const numKeys = this.#numKeys[row]!;
      const numPages = Math.ceil(numKeys / PAGE_TOKENS);
      const scores = this.#scores + query * SCORE_BYTES;
      const queries = this.#queries + query * headBytes;
      this.#overPages(steps.scores, queries, count, this.#tables[row]!, shared, numPages, keys, scores);
      this.#hide(scores, numKeys, count);
      const scoresEnd = scores + numPages * PAGE_SCORE_BYTES;
      for (let i = 0; i < count; i++) {
        const at = i * SCORE_BYTES;
        steps.softmax(scores + at, scoresEnd + at, this.#weights + 4 * (query + i), this.#layout.constants);
      }
    }

    steps.clear(this.#sums, this.#sums + numQueries * headBytes);
    this.#overPages(steps.values, this.#sums, numQueries, table, 0, shared, values, this.#scores);
    for (let row = first, query = 0; row < end; row++, query += count) {
      const numKeys = this.#numKeys[row]!;
      const numFull = Math.floor(numKeys / PAGE_TOKENS);
      const scores = this.#scores + query * SCORE_BYTES;
      const sums = this.#sums + query * headBytes;
      this.#overPages(steps.values, sums, count, this.#tables[row]!, shared, numFull, values, scores);
      if (numFull * PAGE_TOKENS < numKeys) this.#addLastPage(sums, row, count, values, scores);
      const to = o + (row * numHeads + head) * headBytes;
      steps.weigh(sums, to, to + rowBytes, this.#weights + 4 * query);
    }
  }

  /** A step over pages `from` to `end` of a table, for any number of queries. */
  #overPages(
    step: AttentionSteps['scores'],
    rows: number,
    numQueries: number,
    table: number,
    from: number,
    end: number,
    base: number,
    scores: number,
  ): void {
    for (let page = from; page < end; page += this.#pagesAtOnce) {
      const pagesEnd = table + 4 * Math.min(end, page + this.#pagesAtOnce);
      const pageScores = scores + page * PAGE_SCORE_BYTES;
      for (let query = 0; query < numQueries;) {
        const count = nextCount(numQueries - query);
        const at = rows + query * this.#headBytes;
        step[count - 1]!(at, table + 4 * page, pagesEnd, base, pageScores + query * SCORE_BYTES);
        query += count;
      }
    }
  }

  #addLastPage(sums: number, row: number, numQueries: number, values: number, scores: number): void {
    const numKeys = this.#numKeys[row]!;
    const page = Math.floor(numKeys / PAGE_TOKENS);
    const pageValues = values + this.#integers[this.#tables[row]! / 4 + page]!;
    const from = scores + page * PAGE_SCORE_BYTES;
    for (let query = 0; query < numQueries;) {
      const count = nextCount(numQueries - query);
      const at = from + query * SCORE_BYTES;
      const scoresEnd = at + 4 * (numKeys % PAGE_TOKENS);
      this.#steps.someValues[count - 1]!(sums + query * this.#headBytes, pageValues, at, scoresEnd);
      query += count;
    }
  }

  /** Scores behind a row's last key in its page are none. */
  #hide(scores: number, numKeys: number, numQueries: number): void {
    const first = numKeys % PAGE_TOKENS;
    if (first === 0) return;
    const page = scores + Math.floor(numKeys / PAGE_TOKENS) * PAGE_SCORE_BYTES;
    for (let query = 0; query < numQueries; query++) {
      const at = (page + query * SCORE_BYTES) / 4;
      for (let key = first; key < PAGE_TOKENS; key++) this.#floats[at + key] = -Infinity;
    }
  }
}

/** Queries that the next call takes of those that are left: calls of one step take about as many each. */
const nextCount = (remaining: number): number => Math.ceil(remaining / Math.ceil(remaining / MAX_QUERIES));
