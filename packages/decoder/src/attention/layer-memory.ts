import { EXPONENTIAL_CONSTANTS } from '../wasm/exponential.ts';
import { sharedMemory } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import type { AttentionLayout } from './attention-layout.ts';
import { PAGE_TOKENS } from './page-format.ts';
import type { RowTiles } from './row-tiles.ts';

/** Memory of some layers, with its own queries, outputs and page tables. */
export class LayerMemory {
  readonly memory: SharedWasmMemory;
  readonly pool: Float32Array;
  readonly #layout: AttentionLayout;
  readonly #pageTables: number;
  readonly #pages: number;
  readonly #layerBytes: number;
  readonly #pageBytes: number;
  readonly #integers: Int32Array;

  constructor(
    layout: AttentionLayout,
    places: { pageTables: number; pages: number; layerBytes: number; layers: number },
  ) {
    this.#layout = layout;
    this.#pageTables = places.pageTables;
    this.#pages = places.pages;
    this.#layerBytes = places.layerBytes;
    this.#pageBytes = 2 * layout.numKvHeads * layout.headSize * PAGE_TOKENS * 4;
    this.memory = sharedMemory(places.pages + places.layers * places.layerBytes);
    this.pool = new Float32Array(this.memory.buffer);
    this.#integers = new Int32Array(this.memory.buffer);
    this.pool.set(EXPONENTIAL_CONSTANTS, layout.constants / 4);
  }

  /** @param sinks [heads]; null: none */
  setSinks(sinks: Float32Array | null): void {
    const { sinks: at, numHeads } = this.#layout;
    if (sinks === null) this.pool.fill(-Infinity, at / 4, at / 4 + numHeads);
    else this.pool.set(sinks, at / 4);
  }

  floats(address: number, length: number): Float32Array {
    return new Float32Array(this.memory.buffer, address, length);
  }

  layerAddress(layer: number): number {
    return this.#pages + layer * this.#layerBytes;
  }

  /** Index into {@link pool}. */
  pageStart(layer: number, page: number): number {
    return (this.layerAddress(layer) + page * this.#pageBytes) / 4;
  }

  page(layer: number, page: number): Float32Array {
    const start = this.pageStart(layer, page);
    return this.pool.subarray(start, start + this.#pageBytes / 4);
  }

  setTable(sequence: number, pages: readonly number[], maxPages: number): void {
    const start = this.#pageTables / 4 + sequence * maxPages;
    for (const [i, page] of pages.entries()) this.#integers[start + i] = page * this.#pageBytes;
  }

  setRow(row: number, table: number, numKeys: number): void {
    this.#integers[this.#layout.tables / 4 + row] = this.#pageTables + 4 * table;
    this.#integers[this.#layout.numKeys / 4 + row] = numKeys;
  }

  setTiles({ firstRows, endRows, sharedPages, length }: RowTiles): void {
    this.#integers.set(firstRows.subarray(0, length), this.#layout.firstRows / 4);
    this.#integers.set(endRows.subarray(0, length), this.#layout.endRows / 4);
    this.#integers.set(sharedPages.subarray(0, length), this.#layout.sharedPages / 4);
  }
}
