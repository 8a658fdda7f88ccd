import assert from 'node:assert/strict';
import type { InstructionSet } from '@trainyard/native';
import { ThreadTeam } from '../team/thread-team.ts';
import { MAX_MEMORY_BYTES } from '../wasm/web-assembly.ts';
import { planAttention } from './attention-layout.ts';
import type { AttentionLayout } from './attention-layout.ts';
import { AttentionWork, CELL, PAGES_PER_UNIT, UNITS } from './attention-work.ts';
import type { AttentionWorkData } from './attention-work.ts';
import { LayerMemory } from './layer-memory.ts';
import { PAGE_TOKENS } from './page-format.ts';
import { PageTables } from './page-tables.ts';
import { promptRows, promptRowsAtOnce, type PromptRows } from './prompt-rows.ts';
import { RowTiles } from './row-tiles.ts';
import { maxTileRows } from './tile-attention.ts';

export interface PagedAttentionSizes {
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  /** D, a multiple of 4. */
  readonly headSize: number;
  /** Distinct tokens that all sequences hold together. */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  readonly contextLength: number;
  readonly maxRows: number;
  readonly numThreads: number;
}

export interface AttentionMethods {
  /**
   * From this many scores on, ONNX Runtime multiplies a sequence's rows; needs `promptsHaveSameBits`. Default:
   * never
   */
  readonly minPromptScores?: number;
  /**
   * Instruction set of the native kernels for tiles, of `instructionsWithSameBits`. Default null: tiles in
   * WebAssembly.
   */
  readonly instructions?: InstructionSet | null;
}

/** About 20 µs, so that threads finish together and taking units costs nothing. */
const UNIT_KEYS = 1024;
/** Minimum units per thread: tiles shrink to keep all threads busy. */
const UNITS_PER_THREAD = 2;
/** Work that one thread finishes before another wakes up, or before an alert one notices it. */
const MIN_SHARED_KEYS = { asleep: 4096, alert: 512 } as const;

/**
 * Keys and values of all sequences and layers in pages, and attention over them on several threads.
 *
 * Write keys and values before the attention. Shared float32 memory, reserved at once and committed when
 * touched: `2 · layers · key heads · D · 4` bytes per token.
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
  readonly #compute = (unit: number): void => this.#own.compute(unit);
  readonly #team: ThreadTeam;
  readonly #work: number;
  readonly #tiles: RowTiles;
  readonly #minPromptScores: number;
  #prompts: readonly PromptRows[] = [];
  #numRows = 0;
  /** Keys of the row that sees most. */
  #mostKeys = 0;
  #tilesPerUnit = 1;
  #isShared = false;

  static numCells({
    capacityTokens,
    maxSequences,
  }: Pick<PagedAttentionSizes, 'capacityTokens' | 'maxSequences'>): number {
    return PAGE_TOKENS * PageTables.numPages({ numTokens: capacityTokens, maxSequences });
  }

  /**
   * @param team closed with this object. Default: its own team
   * @throws {RangeError} if one layer exceeds the size of a memory
   */
  constructor(
    sizes: PagedAttentionSizes,
    team = new ThreadTeam(sizes.numThreads),
    { minPromptScores = Infinity, instructions = null }: AttentionMethods = {},
  ) {
    const { numLayers, numKvHeads, headSize, capacityTokens, maxSequences, contextLength, maxRows } = sizes;
    this.#sizes = sizes;
    this.#minPromptScores = minPromptScores;
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
        `keys and values of ${capacityTokens} tokens need ${layerBytes} bytes per layer, the maximum is ${MAX_MEMORY_BYTES}`,
      );
    }
    this.tables = new PageTables({ numPages, maxSequences });
    this.#memories = Array.from({ length: Math.ceil(numLayers / this.#layersPerMemory) }, (_, index) => {
      const layers = Math.min(this.#layersPerMemory, numLayers - index * this.#layersPerMemory);
      return new LayerMemory(this.#layout, { pageTables, pages, layerBytes, layers });
    });
    const memories = this.#memories.map(({ memory }) => memory);
    const data: AttentionWorkData = { layout: this.#layout, memories, cells: this.#cells, instructions };
    this.#own = new AttentionWork(data, 0);
    this.#team = team;
    this.#work = team.add({ kind: 'attention', data });
  }

  get numMemories(): number {
    return this.#memories.length;
  }

  /** Queries [rows, heads · D] of a layer, written before {@link attend}. */
  queries(layer: number, numRows: number): Float32Array {
    return this.#memoryOf(layer).floats(this.#layout.q, numRows * this.#sizes.numHeads * this.#sizes.headSize);
  }

  /** Outputs [rows, heads · D] of a layer, written by {@link attend}. */
  outputs(layer: number, numRows: number): Float32Array {
    return this.#memoryOf(layer).floats(this.#layout.o, numRows * this.#sizes.numHeads * this.#sizes.headSize);
  }

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
   * Sets the rows for the attention of the next layers.
   *
   * @param sequences [rows]
   * @param positions [rows] of each row's token, the last key that it sees
   */
  begin(numRows: number, sequences: Int32Array, positions: Int32Array): void {
    this.#numRows = numRows;
    this.#mostKeys = positions.subarray(0, numRows).reduce((most, position) => Math.max(most, position + 1), 0);
    const group = this.#sizes.numHeads / this.#sizes.numKvHeads;
    this.#prompts = promptRows(numRows, sequences, positions, { group, minScores: this.#minPromptScores });
    this.#cutTiles(numRows, sequences, positions);
    for (const memory of this.#memories) {
      let last = -1;
      for (let row = 0; row < numRows; row++) {
        const sequence = sequences[row]!;
        if (sequence !== last) memory.setTable(sequence, this.tables.pagesOf(sequence), this.#maxPages);
        last = sequence;
        memory.setRow(row, sequence * this.#maxPages, positions[row]! + 1);
      }
      memory.setTiles(this.#tiles);
    }
  }

  /** Writes a layer's keys and values of all rows, each [rows, key heads · D]. @param rows columns of the batch */
  write(
    layer: number,
    { keys, values }: { readonly keys: Float32Array; readonly values: Float32Array },
    { sequences, positions }: { readonly sequences: Int32Array; readonly positions: Int32Array },
  ): void {
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

  /**
   * Blocks until done.
   *
   * @param window tokens up to its own that a row sees. Default: all
   * @param sinks [heads] scores of a key without a value that each query of a head sees as well. Default: none
   */
  attend(layer: number, window: number | null = null, sinks: Float32Array | null = null): void {
    this.#memoryOf(layer).setSinks(sinks);
    const cells = this.#cells;
    const memory = Math.floor(layer / this.#layersPerMemory);
    cells[CELL.memory] = memory;
    cells[CELL.pages] = this.#memories[memory]!.layerAddress(layer % this.#layersPerMemory);
    // A window over all keys has the bits of none.
    if (window !== null && window < this.#mostKeys) return this.#attendWindow(window);
    if (this.#tiles.length > 0) this.#attendTiles();
    for (const prompt of this.#prompts) this.#attendPrompt(prompt);
  }

  close(): void {
    this.#team.close();
    this.#own.close();
  }

  #cutTiles(numRows: number, sequences: Int32Array, positions: Int32Array): void {
    const { numHeads, numKvHeads, numThreads } = this.#sizes;
    const ranges: { from: number; end: number }[] = [];
    let from = 0;
    for (const { firstRow, endRow } of this.#prompts) {
      ranges.push({ from, end: firstRow });
      from = endRow;
    }
    ranges.push({ from, end: numRows });
    let [numTiled, numKeys] = [0, 0];
    for (const range of ranges) {
      numTiled += range.end - range.from;
      for (let row = range.from; row < range.end; row++) numKeys += positions[row]! + 1;
    }
    const minSharedKeys = MIN_SHARED_KEYS[this.#team.isAlert ? 'alert' : 'asleep'];
    this.#isShared = numThreads > 1 && numKeys * numKvHeads >= minSharedKeys;
    const fewestUnits = this.#isShared ? numThreads * UNITS_PER_THREAD : 1;
    const mostRows = Math.min(maxTileRows(numHeads, numKvHeads), Math.floor((numTiled * numKvHeads) / fewestUnits));
    const rowAt = (row: number) => ({ pages: this.tables.pagesOf(sequences[row]!), numKeys: positions[row]! + 1 });
    const tiles = this.#tiles;
    tiles.clear();
    for (const { from: first, end } of ranges) tiles.cut(first, end, rowAt, Math.max(1, mostRows));
    this.#tilesPerUnit = Math.max(1, Math.floor((UNIT_KEYS * tiles.length) / numKeys));
  }

  #attendWindow(window: number): void {
    const cells = this.#cells;
    const numRows = this.#numRows;
    const rowsPerUnit = Math.max(1, Math.floor(UNIT_KEYS / window));
    cells[CELL.units] = UNITS.window;
    cells[CELL.window] = window;
    cells[CELL.firstRow] = 0;
    cells[CELL.endRow] = numRows;
    cells[CELL.rowsPerUnit] = rowsPerUnit;
    this.#run(Math.ceil(numRows / rowsPerUnit) * this.#sizes.numKvHeads, this.#isShared);
  }

  #attendTiles(): void {
    const cells = this.#cells;
    const numTiles = this.#tiles.length;
    cells[CELL.units] = UNITS.tiles;
    cells[CELL.numTiles] = numTiles;
    cells[CELL.tilesPerUnit] = this.#tilesPerUnit;
    this.#run(Math.ceil(numTiles / this.#tilesPerUnit) * this.#sizes.numKvHeads, this.#isShared);
  }

  #attendPrompt({ firstRow, endRow, numKeys }: PromptRows): void {
    const { numHeads, numKvHeads, numThreads } = this.#sizes;
    const cells = this.#cells;
    const numPages = Math.ceil(numKeys / PAGE_TOKENS);
    const group = numHeads / numKvHeads;
    assert(numPages <= this.#maxPages, `a row sees ${numKeys} keys of ${this.#maxPages * PAGE_TOKENS}`);
    const headsAtOnce = Math.min(numKvHeads, Math.floor(this.#maxPages / numPages));
    const most = promptRowsAtOnce(group, numPages * PAGE_TOKENS);
    const shared = Math.ceil(((endRow - firstRow) * headsAtOnce) / (numThreads * UNITS_PER_THREAD));
    const rowsPerUnit = Math.min(most, Math.max(promptRowsAtOnce(group, Infinity), shared));
    cells[CELL.firstRow] = firstRow;
    cells[CELL.endRow] = endRow;
    cells[CELL.rowsPerUnit] = rowsPerUnit;
    cells[CELL.numPages] = numPages;
    for (let head = 0; head < numKvHeads; head += headsAtOnce) {
      const numAtHand = Math.min(headsAtOnce, numKvHeads - head);
      cells[CELL.firstKvHead] = head;
      cells[CELL.units] = UNITS.pages;
      this.#run(Math.ceil(numPages / PAGES_PER_UNIT) * numAtHand, true);
      cells[CELL.units] = UNITS.rows;
      this.#run(Math.ceil((endRow - firstRow) / rowsPerUnit) * numAtHand, true);
    }
  }

  #run(numUnits: number, isShared: boolean): void {
    this.#team.run(this.#work, numUnits, isShared, this.#compute);
  }

  #memoryOf(layer: number): LayerMemory {
    return this.#memories[Math.floor(layer / this.#layersPerMemory)]!;
  }
}
