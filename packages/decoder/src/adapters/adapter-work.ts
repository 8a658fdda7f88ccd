import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { paddedRank } from './decoder-adapter.ts';
import {
  adapterModule,
  COLUMN_BLOCK,
  lowName,
  MAX_CHUNK_ROWS,
  RANK_BLOCK,
  restName,
  resultName,
} from './adapter-code.ts';

export interface AdapterWorkData {
  readonly memory: SharedWasmMemory;
  /** Float64, because addresses may exceed 2 GiB: {@link ADAPTER_CELL}, then chunks of {@link CHUNK_CELLS}. */
  readonly cells: Float64Array;
  /** Address of the first thread's room for products with the first factor, and bytes per thread. */
  readonly low: number;
  readonly lowBytes: number;
}

/**
 * Cells that change with each input: address and width of x; then per linear layer: result columns, address of
 * the first result row, bytes per row, and distance in bytes to the addend (NaN: none).
 */
export const ADAPTER_CELL = { x: 0, width: 1, numLinears: 2, linears: 3 } as const;
export const LINEAR_CELLS = 4;
/** Those of a gated delta net. */
const MAX_LINEARS = 4;
/** Cells per chunk: number of rows, their indices, and per linear layer rank (0: none), first and second factor. */
export const CHUNK_CELLS = 1 + MAX_CHUNK_ROWS + 3 * MAX_LINEARS;
export const CHUNKS_AT = ADAPTER_CELL.linears + LINEAR_CELLS * MAX_LINEARS;

type Kernel = (...parameters: number[]) => void;

interface ResultKernels {
  readonly whole: Kernel;
  readonly rest: Kernel;
}

/** Adapter work of one thread for one input. A unit is a chunk of rows of one adapter. */
export class AdapterWork {
  readonly #cells: Float64Array;
  readonly #low: number;
  readonly #kernels: readonly { readonly low: Kernel; readonly result: ResultKernels; readonly onto: ResultKernels }[];

  constructor({ memory, cells, low, lowBytes }: AdapterWorkData, thread: number) {
    this.#cells = cells;
    this.#low = low + thread * lowBytes;
    const kernels = instantiate<Readonly<Record<string, Kernel>>>(compileModule(adapterModule()), memory);
    this.#kernels = Array.from({ length: MAX_CHUNK_ROWS }, (_, i) => ({
      low: kernels[lowName(i + 1)]!,
      result: { whole: kernels[resultName(i + 1, false)]!, rest: kernels[restName(i + 1, false)]! },
      onto: { whole: kernels[resultName(i + 1, true)]!, rest: kernels[restName(i + 1, true)]! },
    }));
  }

  compute(unit: number): void {
    const cells = this.#cells;
    const chunk = CHUNKS_AT + unit * CHUNK_CELLS;
    const numRows = cells[chunk]!;
    const { low, result, onto } = this.#kernels[numRows - 1]!;
    const [x, width] = [cells[ADAPTER_CELL.x]!, cells[ADAPTER_CELL.width]!];
    const rows = Array.from({ length: numRows }, (_, i) => cells[chunk + 1 + i]!);
    const inputs = rows.map((row) => x + 4 * width * row);
    for (let linear = 0; linear < cells[ADAPTER_CELL.numLinears]!; linear++) {
      const factors = chunk + 1 + MAX_CHUNK_ROWS + 3 * linear;
      const [rank, a, b] = [cells[factors]!, cells[factors + 1]!, cells[factors + 2]!];
      if (rank === 0) continue;
      const place = ADAPTER_CELL.linears + LINEAR_CELLS * linear;
      const [out, y, rowBytes, ontoBytes] = [cells[place]!, cells[place + 1]!, cells[place + 2]!, cells[place + 3]!];
      const results = rows.map((row) => y + rowBytes * row);
      low(...inputs, a, a + 4 * paddedRank(rank) * width, 4 * RANK_BLOCK * width, this.#low);
      const [numRest, blockBytes] = [out % COLUMN_BLOCK, 4 * rank * COLUMN_BLOCK];
      const numWhole = out - numRest;
      const bEnd = b + 4 * rank * numWhole;
      const [{ whole, rest }, distance] = Number.isNaN(ontoBytes) ? [result, 0] : [onto, ontoBytes];
      if (numWhole > 0) whole(...results, b, bEnd, blockBytes, this.#low, distance);
      if (numRest > 0) {
        const ends = results.map((row) => row + 4 * numWhole);
        rest(...ends, bEnd, bEnd + blockBytes, blockBytes, this.#low, distance, numRest);
      }
    }
  }
}
