import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { MAX_QUERY_HEADS, PAGE_TOKENS, attentionModule, kernelName } from './attention-code.ts';
import type { AttentionKernel } from './attention-code.ts';

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
  /** Room for the scores of each thread, and its size. */
  readonly scores: number;
  readonly scoreBytes: number;
}

/** Places of what changes from layer to layer, in cells of an Int32Array that all threads see. */
export const CELL = {
  memory: 0,
  /** Address of the layer's pages, unsigned. */
  pages: 1,
  numRows: 2,
  rowsPerUnit: 3,
} as const;

/** Attention as threads are sent it. */
export interface AttentionWorkData {
  readonly layout: AttentionLayout;
  readonly memories: readonly SharedWasmMemory[];
  readonly cells: Int32Array;
}

/**
 * One thread's part of the attention of a layer. A unit is some rows and one key head; which thread computes it changes nothing.
 */
export class AttentionWork {
  readonly #layout: AttentionLayout;
  readonly #cells: Int32Array;
  /** By memory, then by query heads - 1. */
  readonly #kernels: readonly (readonly AttentionKernel[])[];
  readonly #tables: readonly Int32Array[];
  readonly #numKeys: readonly Int32Array[];
  readonly #scores: number;

  constructor({ layout, memories, cells }: AttentionWorkData, thread: number) {
    const { headSize } = layout;
    const module = compileModule(attentionModule(headSize));
    this.#layout = layout;
    this.#cells = cells;
    this.#scores = layout.scores + thread * layout.scoreBytes;
    this.#tables = memories.map(({ buffer }) => new Int32Array(buffer, layout.tables));
    this.#numKeys = memories.map(({ buffer }) => new Int32Array(buffer, layout.numKeys));
    this.#kernels = memories.map((memory) => {
      const kernels = instantiate<Readonly<Record<string, AttentionKernel>>>(module, memory);
      return Array.from({ length: MAX_QUERY_HEADS }, (_, i) => kernels[kernelName(i + 1)]!);
    });
  }

  compute(unit: number): void {
    const cells = this.#cells;
    const { numHeads, numKvHeads, headSize, q, o } = this.#layout;
    const [memory, numRows, rowsPerUnit] = [cells[CELL.memory]!, cells[CELL.numRows]!, cells[CELL.rowsPerUnit]!];
    const kernels = this.#kernels[memory]!;
    const [tables, numKeys] = [this.#tables[memory]!, this.#numKeys[memory]!];
    const unitsPerHead = Math.ceil(numRows / rowsPerUnit);
    const kvHead = Math.floor(unit / unitsPerHead);
    const first = (unit % unitsPerHead) * rowsPerUnit;
    const end = Math.min(numRows, first + rowsPerUnit);
    const headBytes = 4 * headSize;
    const keyBlockBytes = headBytes * PAGE_TOKENS;
    // Addresses above 2 GiB are negative numbers here, which i32 parameters take as they are.
    const keys = cells[CELL.pages]! + kvHead * keyBlockBytes;
    const values = keys + numKvHeads * keyBlockBytes;
    const group = numHeads / numKvHeads;
    const scale = 1 / Math.sqrt(headSize);
    for (let row = first; row < end; row++) {
      for (let head = 0, count = 0; head < group; head += count) {
        count = Math.min(MAX_QUERY_HEADS, group - head);
        // Four heads are two pairs: the kernel for one wastes most of what it loads.
        if (group - head === MAX_QUERY_HEADS + 1) count = 2;
        const at = (row * numHeads + kvHead * group + head) * headBytes;
        kernels[count - 1]!(q + at, o + at, tables[row]!, numKeys[row]!, keys, values, this.#scores, scale);
      }
    }
  }
}
