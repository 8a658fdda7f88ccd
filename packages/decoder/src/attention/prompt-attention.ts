import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import type { AttentionSteps } from './attention-code.ts';
import { promptPlaces } from './attention-layout.ts';
import type { AttentionLayout } from './attention-layout.ts';
import type { AttentionProducts } from './attention-products.ts';
import { PAGE_TOKENS, SCORE_BYTES } from './page-format.ts';
import { maxTileRows, type TileAttention } from './tile-attention.ts';

/**
 * Many rows of one sequence, attended by one thread in one memory: keys and values of a key head are brought together, and multiplied with the queries by ONNX
 * Runtime. Outputs are those of tiles, to the bit, where its products have the bits of the steps over pages: `PagedAttention` asks.
 */
export class PromptAttention {
  readonly #layout: AttentionLayout;
  readonly #steps: AttentionSteps;
  readonly #memory: SharedWasmMemory;
  readonly #floats: Float32Array;
  readonly #tables: Int32Array;
  readonly #numKeys: Int32Array;
  readonly #tiles: TileAttention;
  readonly #products: AttentionProducts;
  readonly #queries: number;
  readonly #sums: number;
  readonly #weights: number;
  readonly #scores: number;
  readonly #headBytes: number;

  constructor(
    layout: AttentionLayout,
    steps: AttentionSteps,
    memory: SharedWasmMemory,
    thread: number,
    parts: { readonly products: AttentionProducts; readonly tiles: TileAttention },
  ) {
    this.#layout = layout;
    this.#steps = steps;
    this.#memory = memory;
    this.#floats = new Float32Array(memory.buffer);
    this.#tables = new Int32Array(memory.buffer, layout.tables);
    this.#numKeys = new Int32Array(memory.buffer, layout.numKeys);
    this.#tiles = parts.tiles;
    this.#products = parts.products;
    const places = promptPlaces(layout, thread);
    this.#queries = places.queries;
    this.#sums = places.sums;
    this.#weights = places.weights;
    this.#scores = places.scores;
    this.#headBytes = 4 * layout.headSize;
  }

  /**
   * Brings keys and values of some pages of a row's sequence together.
   * @param keys address that a page's offset is added to for its keys of the key head
   * @param values the same for its values
   */
  gather(row: number, firstPage: number, endPage: number, keys: number, values: number): void {
    const { promptKeys, promptValues } = this.#layout;
    const table = this.#tables[row]!;
    const at = firstPage * PAGE_TOKENS * this.#headBytes;
    this.#steps.gather(table + 4 * firstPage, table + 4 * endPage, keys, values, promptKeys + at, promptValues + at);
    const numKeys = this.#numKeys[row]!;
    const pagesEnd = endPage * PAGE_TOKENS * this.#headBytes;
    // What lies there was somebody else's, and may be no number: 0 times that would be none either.
    if (numKeys < endPage * PAGE_TOKENS)
      this.#steps.fill(promptValues + numKeys * this.#headBytes, promptValues + pagesEnd, 0);
  }

  /** Outputs of rows `first` to `end`, whose keys and values are together, for the query heads of the key head. */
  attend(first: number, end: number, kvHead: number, keys: number, values: number): void {
    const { q, o, numHeads, numKvHeads, headSize, promptKeys, promptValues } = this.#layout;
    const steps = this.#steps;
    const group = numHeads / numKvHeads;
    const rowBytes = group * this.#headBytes;
    const rowOf = (row: number): number => (row * numHeads + kvHead * group) * this.#headBytes;
    const factor = 1 / Math.sqrt(headSize);
    for (let row = first, to = this.#queries; row < end; row++, to += rowBytes)
      steps.scale(q + rowOf(row), to, to + rowBytes, factor);

    const numQueries = (end - first) * group;
    const numTokens = PAGE_TOKENS * Math.ceil(this.#numKeys[end - 1]! / PAGE_TOKENS);
    const queries = this.#at(this.#queries, numQueries * headSize);
    const scores = this.#at(this.#scores, numQueries * numTokens);
    const sums = this.#at(this.#sums, numQueries * headSize);
    this.#products.score(queries, this.#at(promptKeys, numTokens * headSize), scores);
    for (let query = 0; query < numQueries; query++)
      this.#weighScores(query, this.#numKeys[first + Math.floor(query / group)]!, numTokens);
    this.#products.sum(scores, this.#at(promptValues, numTokens * headSize), sums);
    if (sums.some(Number.isNaN)) return this.#attendInTiles(first, end, kvHead, keys, values);
    for (let row = first; row < end; row++) {
      const at = row - first;
      const to = o + rowOf(row);
      steps.weigh(this.#sums + at * rowBytes, to, to + rowBytes, this.#weights + 4 * at * group);
    }
  }

  /** Softmax over what a query sees; what it does not see has no weight. */
  #weighScores(query: number, numKeys: number, numTokens: number): void {
    const scores = this.#scores + 4 * query * numTokens;
    const pagesEnd = scores + SCORE_BYTES * Math.ceil(numKeys / PAGE_TOKENS);
    for (let key = scores / 4 + numKeys; key < pagesEnd / 4; key++) this.#floats[key] = -Infinity;
    this.#steps.softmaxOfRow(scores, pagesEnd, this.#weights + 4 * query, this.#layout.constants);
    const end = scores + 4 * numTokens;
    if (pagesEnd < end) this.#steps.fill(pagesEnd, end, 0);
  }

  /** A key or value that is no number reaches only rows that see it. */
  #attendInTiles(first: number, end: number, kvHead: number, keys: number, values: number): void {
    const size = maxTileRows(this.#layout.numHeads, this.#layout.numKvHeads);
    for (let row = first; row < end; row += size) {
      const shared = Math.floor(this.#numKeys[row]! / PAGE_TOKENS);
      this.#tiles.attend(row, Math.min(end, row + size), shared, kvHead, keys, values);
    }
  }

  #at(address: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, address, length);
  }
}
