import { compileModule } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { PAGE_TOKENS, attentionModule } from './attention-code.ts';
import { TileAttention } from './tile-attention.ts';
import type { AttentionLayout } from './tile-attention.ts';

/** Places of what changes from layer to layer, in cells of an Int32Array that all threads see. */
export const CELL = {
  memory: 0,
  /** Address of the layer's pages, unsigned. */
  pages: 1,
  numTiles: 2,
  tilesPerUnit: 3,
} as const;

/** Attention as threads are sent it. */
export interface AttentionWorkData {
  readonly layout: AttentionLayout;
  readonly memories: readonly SharedWasmMemory[];
  readonly cells: Int32Array;
}

/**
 * One thread's part of the attention of a layer. A unit is some tiles and one key head; which thread computes it changes nothing.
 */
export class AttentionWork {
  readonly #layout: AttentionLayout;
  readonly #cells: Int32Array;
  /** By memory. */
  readonly #tiles: readonly TileAttention[];

  constructor({ layout, memories, cells }: AttentionWorkData, thread: number) {
    const module = compileModule(attentionModule(layout.headSize));
    this.#layout = layout;
    this.#cells = cells;
    this.#tiles = memories.map((memory) => new TileAttention(layout, module, memory, thread));
  }

  compute(unit: number): void {
    const cells = this.#cells;
    const { numKvHeads, headSize } = this.#layout;
    const [numTiles, tilesPerUnit] = [cells[CELL.numTiles]!, cells[CELL.tilesPerUnit]!];
    const tiles = this.#tiles[cells[CELL.memory]!]!;
    const unitsPerHead = Math.ceil(numTiles / tilesPerUnit);
    const kvHead = Math.floor(unit / unitsPerHead);
    const first = (unit % unitsPerHead) * tilesPerUnit;
    const end = Math.min(numTiles, first + tilesPerUnit);
    const keyBlockBytes = 4 * headSize * PAGE_TOKENS;
    // Addresses above 2 GiB are negative numbers here, which i32 parameters take as they are.
    const keys = cells[CELL.pages]! + kvHead * keyBlockBytes;
    const values = keys + numKvHeads * keyBlockBytes;
    for (let tile = first; tile < end; tile++) tiles.attend(tile, kvHead, keys, values);
  }
}
