import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { MAX_QUERIES, type AttentionSteps } from './attention-code.ts';
import { tilePlaces } from './attention-layout.ts';
import type { AttentionLayout } from './attention-layout.ts';
import { PAGE_SCORE_BYTES, PAGE_TOKENS, partTokens, SCORE_BYTES, TILE_QUERIES } from './page-format.ts';

/** Bytes that stay in the first-level cache while several queries read them. */
const BLOCK_BYTES = 32_768;

const headsAtOnce = (numHeads: number, numKvHeads: number): number => Math.min(TILE_QUERIES, numHeads / numKvHeads);
export const maxTileRows = (numHeads: number, numKvHeads: number): number =>
  Math.floor(TILE_QUERIES / headsAtOnce(numHeads, numKvHeads));

export interface KeyHead {
  readonly kvHead: number;
  /** Address to which a page's offset is added for its keys. */
  readonly keys: number;
  /** The same for its values. */
  readonly values: number;
}

/** Query heads of a key head that are computed together. */
interface QueryHeads extends KeyHead {
  readonly head: number;
  readonly count: number;
}

/** Rows that are computed together. */
interface TileRange {
  readonly first: number;
  readonly end: number;
  /** Leading full pages that all rows see. */
  readonly shared: number;
  /** First key that they see; 0 if they share pages. */
  readonly firstKey: number;
}

/** Pages `from` to `end` of the table at an address. */
interface PageRange {
  readonly table: number;
  readonly from: number;
  readonly end: number;
}

/** Attention of tiles by one thread in one memory. All implementations give the same bits. */
export interface Tiles {
  attendTiles(first: number, end: number, head: KeyHead): void;
  /** Computes outputs of rows `first` to `end`, one by one, each over its last `window` keys. */
  attendWindow(first: number, end: number, window: number, head: KeyHead): void;
  /**
   * Computes outputs of rows `first` to `end`, at most {@link maxTileRows}, for the query heads of one key head.
   *
   * @param shared leading full pages that all rows see
   */
  attend(first: number, end: number, shared: number, head: KeyHead): void;
}

/** Steps in WebAssembly: on processors without native kernels, and the twin that those are compared with. */
export class TileAttention implements Tiles {
  readonly #layout: AttentionLayout;
  readonly #steps: AttentionSteps;
  readonly #floats: Float32Array;
  readonly #integers: Int32Array;
  readonly #tables: Int32Array;
  readonly #numKeys: Int32Array;
  readonly #firstRows: Int32Array;
  readonly #endRows: Int32Array;
  readonly #sharedPages: Int32Array;
  readonly #queries: number;
  readonly #part: number;
  readonly #sums: number;
  readonly #weights: number;
  readonly #scores: number;
  readonly #headBytes: number;
  readonly #pagesAtOnce: number;
  readonly #partPages: number;

  constructor(layout: AttentionLayout, steps: AttentionSteps, { buffer }: SharedWasmMemory, thread: number) {
    const { headSize } = layout;
    this.#layout = layout;
    this.#steps = steps;
    this.#floats = new Float32Array(buffer);
    this.#integers = new Int32Array(buffer);
    this.#tables = new Int32Array(buffer, layout.tables);
    this.#numKeys = new Int32Array(buffer, layout.numKeys);
    this.#firstRows = new Int32Array(buffer, layout.firstRows);
    this.#endRows = new Int32Array(buffer, layout.endRows);
    this.#sharedPages = new Int32Array(buffer, layout.sharedPages);
    const places = tilePlaces(layout, thread);
    this.#queries = places.queries;
    this.#part = places.part;
    this.#sums = places.sums;
    this.#weights = places.weights;
    this.#scores = places.scores;
    this.#headBytes = 4 * headSize;
    this.#pagesAtOnce = Math.max(1, Math.floor(BLOCK_BYTES / (this.#headBytes * PAGE_TOKENS)));
    this.#partPages = partTokens(headSize) / PAGE_TOKENS;
  }

  attendTiles(first: number, end: number, head: KeyHead): void {
    for (let tile = first; tile < end; tile++)
      this.attend(this.#firstRows[tile]!, this.#endRows[tile]!, this.#sharedPages[tile]!, head);
  }

  attendWindow(first: number, end: number, window: number, head: KeyHead): void {
    for (let row = first; row < end; row++) {
      const firstKey = Math.max(0, this.#numKeys[row]! - window);
      this.#attend({ first: row, end: row + 1, shared: 0, firstKey }, head);
    }
  }

  attend(first: number, end: number, shared: number, head: KeyHead): void {
    this.#attend({ first, end, shared, firstKey: 0 }, head);
  }

  #attend(range: TileRange, { kvHead, keys, values }: KeyHead): void {
    const { numHeads, numKvHeads } = this.#layout;
    const group = numHeads / numKvHeads;
    const numAtOnce = headsAtOnce(numHeads, numKvHeads);
    for (let head = 0; head < group; head += numAtOnce) {
      const count = Math.min(numAtOnce, group - head);
      this.#attendHeads(range, { kvHead, keys, values, head: kvHead * group + head, count });
    }
  }

  #attendHeads({ first, end, shared, firstKey }: TileRange, { head, count, keys, values }: QueryHeads): void {
    const steps = this.#steps;
    const headBytes = this.#headBytes;
    const rowBytes = count * headBytes;
    const numQueries = (end - first) * count;
    const { q, o, numHeads, headSize } = this.#layout;
    const factor = 1 / Math.sqrt(headSize);
    for (let row = first, to = this.#queries; row < end; row++, to += rowBytes) {
      steps.scale(q + (row * numHeads + head) * headBytes, to, to + rowBytes, factor);
    }

    const firstPage = Math.floor(firstKey / PAGE_TOKENS);
    const ownFirst = Math.max(shared, firstPage);
    const table = this.#tables[first]!;
    const sharedPages = { table, from: 0, end: shared };
    const ofTile = { at: this.#queries, scores: this.#scores, count: numQueries };
    this.#overPages(steps.scores, ofTile, sharedPages, keys);
    for (let row = first, query = 0; row < end; row++, query += count) {
      const numKeys = this.#numKeys[row]!;
      const numPages = Math.ceil(numKeys / PAGE_TOKENS);
      const scores = this.#scores + query * SCORE_BYTES;
      const queries = { at: this.#queries + query * headBytes, scores, count };
      this.#overPages(steps.scores, queries, { table: this.#tables[row]!, from: ownFirst, end: numPages }, keys);
      this.#hide(scores, numKeys, count);
      this.#hideBefore(scores, firstKey, count);
      const scoresEnd = scores + numPages * PAGE_SCORE_BYTES;
      for (let i = 0; i < count; i++) {
        const at = i * SCORE_BYTES;
        this.#floats[this.#weights / 4 + query + i] = this.#floats[this.#layout.sinks / 4 + head + i]!;
        const from = scores + firstPage * PAGE_SCORE_BYTES + at;
        steps.softmax(from, scoresEnd + at, this.#weights + 4 * (query + i), this.#layout.constants);
      }
    }

    steps.fill(this.#part, this.#part + numQueries * headBytes, 0);
    // -0 plus any number is that number, -0 included.
    steps.fill(this.#sums, this.#sums + numQueries * headBytes, -0);
    this.#addValues(0, numQueries, sharedPages, values);
    for (let row = first, query = 0; row < end; row++, query += count) {
      const numFull = Math.floor(this.#numKeys[row]! / PAGE_TOKENS);
      this.#addValues(query, count, { table: this.#tables[row]!, from: ownFirst, end: numFull }, values);
      this.#addLastValues(query, count, row, values);
      const to = o + (row * numHeads + head) * headBytes;
      steps.weigh(this.#sums + query * headBytes, to, to + rowBytes, this.#weights + 4 * query);
    }
  }

  /** Adds values of full pages, part by part. @param query first of the tile's queries that see them */
  #addValues(query: number, count: number, { table, from, end }: PageRange, values: number): void {
    const at = this.#part + query * this.#headBytes;
    const scores = this.#scores + query * SCORE_BYTES;
    for (let page = from; page < end;) {
      const partEnd = (Math.floor(page / this.#partPages) + 1) * this.#partPages;
      const next = Math.min(end, partEnd);
      this.#overPages(this.#steps.values, { at, scores, count }, { table, from: page, end: next }, values);
      if (next === partEnd) this.#addPart(query, count);
      page = next;
    }
  }

  /** Adds the values of a row's last page, if not full, then the unfinished part. */
  #addLastValues(query: number, numQueries: number, row: number, values: number): void {
    const numKeys = this.#numKeys[row]!;
    const numLast = numKeys % PAGE_TOKENS;
    const page = Math.floor(numKeys / PAGE_TOKENS);
    if (numLast > 0) {
      const pageValues = values + this.#integers[this.#tables[row]! / 4 + page]!;
      const from = this.#scores + query * SCORE_BYTES + page * PAGE_SCORE_BYTES;
      for (let i = 0; i < numQueries;) {
        const count = nextCount(numQueries - i);
        const at = from + i * SCORE_BYTES;
        const part = this.#part + (query + i) * this.#headBytes;
        this.#steps.someValues[count - 1]!(part, pageValues, at, at + 4 * numLast);
        i += count;
      }
    }
    if (numLast > 0 || page % this.#partPages > 0) this.#addPart(query, numQueries);
  }

  #addPart(query: number, numQueries: number): void {
    const sums = this.#sums + query * this.#headBytes;
    this.#steps.addPart(this.#part + query * this.#headBytes, sums, sums + numQueries * this.#headBytes);
  }

  /** Splits a step over any number of queries. */
  #overPages(
    step: AttentionSteps['scores'],
    { at, scores, count: numQueries }: { readonly at: number; readonly scores: number; readonly count: number },
    { table, from, end }: PageRange,
    base: number,
  ): void {
    for (let page = from; page < end; page += this.#pagesAtOnce) {
      const pagesEnd = table + 4 * Math.min(end, page + this.#pagesAtOnce);
      const pageScores = scores + page * PAGE_SCORE_BYTES;
      for (let query = 0; query < numQueries;) {
        const count = nextCount(numQueries - query);
        const row = at + query * this.#headBytes;
        step[count - 1]!(row, table + 4 * page, pagesEnd, base, pageScores + query * SCORE_BYTES);
        query += count;
      }
    }
  }

  /** Masks the scores before a row's first key in its page. */
  #hideBefore(scores: number, firstKey: number, numQueries: number): void {
    const page = scores + Math.floor(firstKey / PAGE_TOKENS) * PAGE_SCORE_BYTES;
    for (let query = 0; query < numQueries; query++) {
      const at = (page + query * SCORE_BYTES) / 4;
      for (let key = 0; key < firstKey % PAGE_TOKENS; key++) this.#floats[at + key] = -Infinity;
    }
  }

  /** Masks the scores after a row's last key in its page. */
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

/** Queries for the next call, so that all calls of a step take about the same number. */
const nextCount = (remaining: number): number => Math.ceil(remaining / Math.ceil(remaining / MAX_QUERIES));
