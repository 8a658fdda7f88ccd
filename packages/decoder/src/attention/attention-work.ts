import { AttentionKernels } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { attentionModule, stepsOf } from './attention-code.ts';
import { type AttentionLayout, kernelPlan } from './attention-layout.ts';
import { AttentionProducts } from './attention-products.ts';
import { PAGE_TOKENS } from './page-format.ts';
import { PromptAttention, type PromptHead } from './prompt-attention.ts';
import { TileAttention, type Tiles } from './tile-attention.ts';

/** Cells shared by all threads, for values that change with the layer. */
export const CELL = {
  memory: 0,
  /** Address of the layer's pages, unsigned. */
  pages: 1,
  /** Kind of the units, of {@link UNITS}. */
  units: 2,
  numTiles: 3,
  tilesPerUnit: 4,
  /** First of the prompt's key heads that are processed together. */
  firstKvHead: 5,
  firstRow: 6,
  endRow: 7,
  rowsPerUnit: 8,
  numPages: 9,
  window: 10,
} as const;

export const UNITS = {
  /** Some tiles and one key head. */
  tiles: 0,
  /** Some pages of a prompt and one of its current key heads, to be gathered. */
  pages: 1,
  /** Some rows of a prompt and one of its current key heads. */
  rows: 2,
  /** Some rows and one key head, with a window. */
  window: 3,
} as const;

/** Pages per unit: about 20 µs. */
export const PAGES_PER_UNIT = 32;

export interface AttentionWorkData {
  readonly layout: AttentionLayout;
  readonly memories: readonly SharedWasmMemory[];
  readonly cells: Int32Array;
  /** Instruction set of the native kernels that compute tiles; null: WebAssembly does. */
  readonly instructions: InstructionSet | null;
}

/** Attention work of one thread for one layer. Any thread may compute any unit. */
export class AttentionWork {
  readonly #layout: AttentionLayout;
  readonly #cells: Int32Array;
  readonly #tiles: readonly Tiles[];
  readonly #prompts: readonly PromptAttention[];
  readonly #products: AttentionProducts;

  constructor({ layout, memories, cells, instructions }: AttentionWorkData, thread: number) {
    const module = compileModule(attentionModule(layout.headSize));
    this.#layout = layout;
    this.#cells = cells;
    this.#products = new AttentionProducts(layout.headSize);
    const steps = memories.map((memory) => stepsOf(instantiate(module, memory)));
    this.#tiles = memories.map((memory, i) =>
      instructions === null
        ? new TileAttention(layout, steps[i]!, memory, thread)
        : new AttentionKernels(memory.buffer, kernelPlan(layout, thread), instructions),
    );
    this.#prompts = memories.map((memory, i) => {
      const parts = { steps: steps[i]!, memory, products: this.#products, tiles: this.#tiles[i]! };
      return new PromptAttention(layout, thread, parts);
    });
  }

  compute(unit: number): void {
    switch (this.#cells[CELL.units]) {
      case UNITS.pages:
        return this.#gather(unit);
      case UNITS.rows:
        return this.#attendRows(unit);
      case UNITS.window:
        return this.#attendWindow(unit);
      default:
        return this.#attendTiles(unit);
    }
  }

  close(): void {
    this.#products.close();
  }

  #attendTiles(unit: number): void {
    const [numTiles, tilesPerUnit] = [this.#value('numTiles'), this.#value('tilesPerUnit')];
    const unitsPerHead = Math.ceil(numTiles / tilesPerUnit);
    const kvHead = Math.floor(unit / unitsPerHead);
    const first = (unit % unitsPerHead) * tilesPerUnit;
    const end = Math.min(numTiles, first + tilesPerUnit);
    this.#tiles[this.#value('memory')]!.attendTiles(first, end, { kvHead, ...this.#basesOf(kvHead) });
  }

  #gather(unit: number): void {
    const numPages = this.#value('numPages');
    const unitsPerHead = Math.ceil(numPages / PAGES_PER_UNIT);
    const first = (unit % unitsPerHead) * PAGES_PER_UNIT;
    const end = Math.min(numPages, first + PAGES_PER_UNIT);
    const head = this.#promptHead(Math.floor(unit / unitsPerHead));
    this.#prompts[this.#value('memory')]!.gather(this.#value('endRow') - 1, first, end, head);
  }

  #attendRows(unit: number): void {
    const { first, end, head } = this.#rowsOf(unit);
    this.#prompts[this.#value('memory')]!.attend(first, end, this.#promptHead(head));
  }

  #attendWindow(unit: number): void {
    const { first, end, head: kvHead } = this.#rowsOf(unit);
    const head = { kvHead, ...this.#basesOf(kvHead) };
    this.#tiles[this.#value('memory')]!.attendWindow(first, end, this.#value('window'), head);
  }

  /** Rows of a unit, and the index of its key head. */
  #rowsOf(unit: number): { readonly first: number; readonly end: number; readonly head: number } {
    const [firstRow, endRow, rowsPerUnit] = [
      this.#value('firstRow'),
      this.#value('endRow'),
      this.#value('rowsPerUnit'),
    ];
    const unitsPerHead = Math.ceil((endRow - firstRow) / rowsPerUnit);
    const first = firstRow + (unit % unitsPerHead) * rowsPerUnit;
    return { first, end: Math.min(endRow, first + rowsPerUnit), head: Math.floor(unit / unitsPerHead) };
  }

  /** @param index among the current key heads, which are stored contiguously */
  #promptHead(index: number): PromptHead {
    const kvHead = this.#value('firstKvHead') + index;
    return { kvHead, ...this.#basesOf(kvHead), firstToken: index * this.#value('numPages') * PAGE_TOKENS };
  }

  /** Addresses that a page's offset is added to for its keys and values of a key head. */
  #basesOf(kvHead: number): { keys: number; values: number } {
    const { numKvHeads, headSize } = this.#layout;
    const keyBlockBytes = 4 * headSize * PAGE_TOKENS;
    // Addresses above 2 GiB are negative here; i32 parameters accept them.
    const keys = this.#value('pages') + kvHead * keyBlockBytes;
    return { keys, values: keys + numKvHeads * keyBlockBytes };
  }

  #value(name: keyof typeof CELL): number {
    return this.#cells[CELL[name]]!;
  }
}
