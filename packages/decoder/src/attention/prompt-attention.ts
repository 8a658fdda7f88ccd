import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import type { AttentionSteps } from './attention-code.ts';
import { promptPlaces } from './attention-layout.ts';
import type { AttentionLayout } from './attention-layout.ts';
import type { AttentionProducts } from './attention-products.ts';
import { PAGE_TOKENS, SCORE_BYTES } from './page-format.ts';
import { type KeyHead, maxTileRows, type Tiles } from './tile-attention.ts';

export interface PromptHead extends KeyHead {
  /** Place of its gathered keys and values, in tokens. */
  readonly firstToken: number;
}

export interface PromptAttentionParts {
  readonly steps: AttentionSteps;
  readonly memory: SharedWasmMemory;
  readonly products: AttentionProducts;
  readonly tiles: Tiles;
}

/**
 * Attention of many rows of one sequence on one thread: gathers keys and values of a key head and multiplies
 * them with ONNX Runtime. Equals tiles to the bit if `promptsHaveSameBits`.
 */
export class PromptAttention {
  readonly #layout: AttentionLayout;
  readonly #steps: AttentionSteps;
  readonly #memory: SharedWasmMemory;
  readonly #floats: Float32Array;
  readonly #tables: Int32Array;
  readonly #numKeys: Int32Array;
  readonly #tiles: Tiles;
  readonly #products: AttentionProducts;
  readonly #queries: number;
  readonly #sums: number;
  readonly #weights: number;
  readonly #scores: number;
  readonly #headBytes: number;

  constructor(layout: AttentionLayout, thread: number, { steps, memory, products, tiles }: PromptAttentionParts) {
    this.#layout = layout;
    this.#steps = steps;
    this.#memory = memory;
    this.#floats = new Float32Array(memory.buffer);
    this.#tables = new Int32Array(memory.buffer, layout.tables);
    this.#numKeys = new Int32Array(memory.buffer, layout.numKeys);
    this.#tiles = tiles;
    this.#products = products;
    const places = promptPlaces(layout, thread);
    this.#queries = places.queries;
    this.#sums = places.sums;
    this.#weights = places.weights;
    this.#scores = places.scores;
    this.#headBytes = 4 * layout.headSize;
  }

  gather(row: number, firstPage: number, endPage: number, { keys, values, firstToken }: PromptHead): void {
    const { promptKeys, promptValues } = this.#layout;
    const table = this.#tables[row]!;
    const at = (token: number): number => (firstToken + token) * this.#headBytes;
    const start = at(firstPage * PAGE_TOKENS);
    const [pages, pagesEnd] = [table + 4 * firstPage, table + 4 * endPage];
    this.#steps.gather(pages, pagesEnd, keys, values, promptKeys + start, promptValues + start);
    const numKeys = this.#numKeys[row]!;
    // A former owner may have left NaN there, and 0 times NaN is NaN.
    if (numKeys < endPage * PAGE_TOKENS)
      this.#steps.fill(promptValues + at(numKeys), promptValues + at(endPage * PAGE_TOKENS), 0);
  }

  /** Computes outputs of rows `first` to `end` for the query heads of a gathered key head. */
  attend(first: number, end: number, head: PromptHead): void {
    const { kvHead, firstToken } = head;
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
    const together = (start: number) => this.#at(start + firstToken * this.#headBytes, numTokens * headSize);
    this.#products.score(queries, together(promptKeys), scores);
    for (let query = 0; query < numQueries; query++)
      this.#weighScores(query, {
        numKeys: this.#numKeys[first + Math.floor(query / group)]!,
        numTokens,
        sink: this.#floats[this.#layout.sinks / 4 + kvHead * group + (query % group)]!,
      });
    this.#products.sum(scores, together(promptValues), sums);
    if (this.#hasFault(numQueries)) return this.#attendInTiles(first, end, head);
    for (let row = first; row < end; row++) {
      const at = row - first;
      const to = o + rowOf(row);
      steps.weigh(this.#sums + at * rowBytes, to, to + rowBytes, this.#weights + 4 * at * group);
    }
  }

  /** True if a sum is NaN or infinite. Overwrites the scores. */
  #hasFault(numQueries: number): boolean {
    const [floats, at] = [this.#floats, this.#scores / 4];
    this.#steps.nullify(this.#sums, this.#sums + numQueries * this.#headBytes, this.#scores);
    return Number.isNaN(floats[at]! + floats[at + 1]! + floats[at + 2]! + floats[at + 3]!);
  }

  /** Softmax over the keys that a query sees; the others get no weight. */
  #weighScores(
    query: number,
    { numKeys, numTokens, sink }: { readonly numKeys: number; readonly numTokens: number; readonly sink: number },
  ): void {
    const scores = this.#scores + 4 * query * numTokens;
    const pagesEnd = scores + SCORE_BYTES * Math.ceil(numKeys / PAGE_TOKENS);
    for (let key = scores / 4 + numKeys; key < pagesEnd / 4; key++) this.#floats[key] = -Infinity;
    this.#floats[this.#weights / 4 + query] = sink;
    this.#steps.softmaxOfRow(scores, pagesEnd, this.#weights + 4 * query, this.#layout.constants);
    const end = scores + 4 * numTokens;
    if (pagesEnd < end) this.#steps.fill(pagesEnd, end, 0);
  }

  /** Computes the rows in tiles, so that a NaN key or value reaches only rows that see it. */
  #attendInTiles(first: number, end: number, head: PromptHead): void {
    const size = maxTileRows(this.#layout.numHeads, this.#layout.numKvHeads);
    for (let row = first; row < end; row += size) {
      const shared = Math.floor(this.#numKeys[row]! / PAGE_TOKENS);
      this.#tiles.attend(row, Math.min(end, row + size), shared, head);
    }
  }

  #at(address: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, address, length);
  }
}
