import { MAX_MEMORY_BYTES, sharedMemory } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { EXPONENTIAL_CONSTANTS } from '../wasm/exponential.ts';
import { PAGE_TOKENS } from './attention-code.ts';
import { AttentionWork, CELL } from './attention-work.ts';
import type { AttentionWorkData } from './attention-work.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { PageTables } from './page-tables.ts';
import { RowTiles } from './row-tiles.ts';
import { maxTileRows, planAttention } from './tile-attention.ts';
import type { AttentionLayout } from './tile-attention.ts';

export interface PagedAttentionSizes {
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  /** D, a multiple of 4. */
  readonly headSize: number;
  /** Different tokens that all sequences hold together. */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  /** Longest sequence, tokens. */
  readonly contextLength: number;
  /** Most rows of one batch. */
  readonly maxRows: number;
  readonly numThreads: number;
}

/** Rows and keys of a unit of work, where one tile has no more: some 20 µs, so that threads end together and the taking of units costs nothing. */
const UNIT_KEYS = 1024;
/** Tiles are smaller where there would be less units than that: all threads are to have work. */
const UNITS_PER_THREAD = 2;
/** Less than this, over all rows and key heads, is done before another thread is awake; or before one that looks out for work has heard of it. */
const MIN_SHARED_KEYS = { asleep: 4096, alert: 512 } as const;

/**
 * Keys and values of all sequences and layers in pages, and attention over them on several threads.
 *
 * A token's keys and values are written before its attention is computed. Memory is shared between threads, float32, reserved whole and taken from the machine as
 * it is touched: `2 · layers · key heads · D · 4` bytes a token.
 */
export class PagedAttention {
  readonly tables: PageTables;
  readonly #sizes: PagedAttentionSizes;
  readonly #layout: AttentionLayout;
  readonly #memories: readonly LayerMemory[];
  readonly #layersPerMemory: number;
  readonly #maxPages: number;
  readonly #cells = new Int32Array(new SharedArrayBuffer(4 * Object.keys(CELL).length));
  readonly #own: AttentionWork;
  readonly #team: ThreadTeam;
  readonly #work: number;
  readonly #tiles: RowTiles;
  #numRows = 0;
  #tilesPerUnit = 1;
  #isShared = false;

  /** Tokens that the pages have room for: see {@link PageTables}. */
  static numCells({
    capacityTokens,
    maxSequences,
  }: Pick<PagedAttentionSizes, 'capacityTokens' | 'maxSequences'>): number {
    return PAGE_TOKENS * PageTables.numPages({ numTokens: capacityTokens, maxSequences });
  }

  /**
   * @param team closed with it. Default: one of its own
   * @throws {RangeError} when one layer alone is more than a memory can hold
   */
  constructor(sizes: PagedAttentionSizes, team = new ThreadTeam(sizes.numThreads)) {
    const { numLayers, numKvHeads, headSize, capacityTokens, maxSequences, contextLength, maxRows } = sizes;
    this.#sizes = sizes;
    this.#maxPages = Math.ceil(contextLength / PAGE_TOKENS);
    const numPages = PagedAttention.numCells(sizes) / PAGE_TOKENS;
    const { layout, end } = planAttention({ ...sizes, maxPages: this.#maxPages });
    this.#layout = layout;
    this.#tiles = new RowTiles(maxRows);
    const pageTables = end;
    const pages = pageTables + 64 * Math.ceil((4 * maxSequences * this.#maxPages) / 64);
    const layerBytes = numPages * 2 * numKvHeads * headSize * PAGE_TOKENS * 4;
    this.#layersPerMemory = Math.min(numLayers, Math.floor((MAX_MEMORY_BYTES - pages) / layerBytes));
    if (this.#layersPerMemory === 0) {
      throw new RangeError(
        `keys and values of ${capacityTokens} tokens are ${layerBytes} bytes a layer, and ${MAX_MEMORY_BYTES} are all that can be addressed`,
      );
    }
    this.tables = new PageTables({ numPages, maxSequences });
    this.#memories = Array.from({ length: Math.ceil(numLayers / this.#layersPerMemory) }, (_, index) => {
      const layers = Math.min(this.#layersPerMemory, numLayers - index * this.#layersPerMemory);
      return new LayerMemory(this.#layout, { pageTables, pages, layerBytes, layers });
    });
    const memories = this.#memories.map(({ memory }) => memory);
    const data: AttentionWorkData = { layout: this.#layout, memories, cells: this.#cells };
    this.#own = new AttentionWork(data, 0);
    this.#team = team;
    this.#work = team.add({ kind: 'attention', data });
  }

  /** WebAssembly memories that the layers are spread over. */
  get numMemories(): number {
    return this.#memories.length;
  }

  /** [rows, heads · D] of a layer: queries are written there before {@link attend}. */
  queries(layer: number, numRows: number): Float32Array {
    return this.#memoryOf(layer).floats(this.#layout.q, numRows * this.#sizes.numHeads * this.#sizes.headSize);
  }

  /** [rows, heads · D] of a layer, once {@link attend} has written them. */
  outputs(layer: number, numRows: number): Float32Array {
    return this.#memoryOf(layer).floats(this.#layout.o, numRows * this.#sizes.numHeads * this.#sizes.headSize);
  }

  /** Copies what sequences share before they write. */
  copyPage({ from, to, numTokens }: { from: number; to: number; numTokens: number }): void {
    const { numKvHeads, headSize } = this.#sizes;
    for (let layer = 0; layer < this.#sizes.numLayers; layer++) {
      const memory = this.#memoryOf(layer);
      const local = layer % this.#layersPerMemory;
      const [source, target] = [memory.page(local, from), memory.page(local, to)];
      const half = numKvHeads * headSize * PAGE_TOKENS;
      target.set(source.subarray(0, half));
      for (let head = 0; head < numKvHeads; head++) {
        const start = half + head * headSize * PAGE_TOKENS;
        target.set(source.subarray(start, start + numTokens * headSize), start);
      }
    }
  }

  /**
   * The rows of the next layers' attention.
   * @param sequences [rows]
   * @param positions [rows] of each row's token, the last key that it sees
   */
  begin(numRows: number, sequences: Int32Array, positions: Int32Array): void {
    this.#numRows = numRows;
    let numKeys = 0;
    for (let row = 0; row < numRows; row++) numKeys += positions[row]! + 1;
    const { numHeads, numKvHeads, numThreads } = this.#sizes;
    const minSharedKeys = MIN_SHARED_KEYS[this.#team.isAlert ? 'alert' : 'asleep'];
    this.#isShared = numThreads > 1 && numKeys * numKvHeads >= minSharedKeys;
    const tiles = this.#tiles;
    const fewestUnits = this.#isShared ? numThreads * UNITS_PER_THREAD : 1;
    const mostRows = Math.min(maxTileRows(numHeads, numKvHeads), Math.floor((numRows * numKvHeads) / fewestUnits));
    const rowAt = (row: number) => ({ pages: this.tables.pagesOf(sequences[row]!), numKeys: positions[row]! + 1 });
    tiles.cut(numRows, rowAt, Math.max(1, mostRows));
    this.#tilesPerUnit = Math.max(1, Math.floor((UNIT_KEYS * tiles.length) / numKeys));
    for (const memory of this.#memories) {
      let last = -1;
      for (let row = 0; row < numRows; row++) {
        const sequence = sequences[row]!;
        if (sequence !== last) memory.setTable(sequence, this.tables.pagesOf(sequence), this.#maxPages);
        last = sequence;
        memory.setRow(row, sequence * this.#maxPages, positions[row]! + 1);
      }
      memory.setTiles(tiles);
    }
  }

  /** Writes a layer's keys and values of all rows. @param keys [rows, key heads · D] @param values the same */
  write(layer: number, keys: Float32Array, values: Float32Array, sequences: Int32Array, positions: Int32Array): void {
    const { numKvHeads, headSize } = this.#sizes;
    const memory = this.#memoryOf(layer);
    const width = numKvHeads * headSize;
    const headFloats = headSize * PAGE_TOKENS;
    const { pool } = memory;
    for (let row = 0; row < this.#numRows; row++) {
      const position = positions[row]!;
      const slot = position % PAGE_TOKENS;
      const page = this.tables.pagesOf(sequences[row]!)[Math.floor(position / PAGE_TOKENS)]!;
      const start = memory.pageStart(layer % this.#layersPerMemory, page);
      // [key heads, D, 16]
      let key = start + slot;
      for (let i = row * width; i < (row + 1) * width; i++, key += PAGE_TOKENS) pool[key] = keys[i]!;
      // [key heads, 16, D]
      let value = start + numKvHeads * headFloats + slot * headSize;
      for (let from = row * width; from < (row + 1) * width; from += headSize, value += headFloats) {
        for (let d = 0; d < headSize; d++) pool[value + d] = values[from + d]!;
      }
    }
  }

  /** Attention of all rows of a layer. Blocks until it is done. */
  attend(layer: number): void {
    const { numKvHeads } = this.#sizes;
    const cells = this.#cells;
    const memory = Math.floor(layer / this.#layersPerMemory);
    const numTiles = this.#tiles.length;
    const numUnits = Math.ceil(numTiles / this.#tilesPerUnit) * numKvHeads;
    cells[CELL.memory] = memory;
    cells[CELL.pages] = this.#memories[memory]!.layerAddress(layer % this.#layersPerMemory);
    cells[CELL.numTiles] = numTiles;
    cells[CELL.tilesPerUnit] = this.#tilesPerUnit;
    this.#team.run(this.#work, numUnits, this.#isShared, (unit) => this.#own.compute(unit));
  }

  close(): void {
    this.#team.close();
  }

  #memoryOf(layer: number): LayerMemory {
    return this.#memories[Math.floor(layer / this.#layersPerMemory)]!;
  }
}

/** The memory of some layers, with queries, outputs and page tables of its own. */
class LayerMemory {
  readonly memory: SharedWasmMemory;
  /** All of it, as float32. */
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
  setTiles({ firstRows, sharedPages, length }: RowTiles): void {
    for (let tile = 0; tile < length; tile++) {
      this.#integers[this.#layout.firstRows / 4 + tile] = firstRows[tile]!;
      this.#integers[this.#layout.sharedPages / 4 + tile] = sharedPages[tile]!;
    }
    this.#integers[this.#layout.firstRows / 4 + length] = firstRows[length]!;
  }
}
