import { BorrowedOnnxSession } from '@trainyard/native';
import type { OnnxSessionPlace, OnnxTensor } from '@trainyard/native';
import type { ColumnRange } from '../graphs/column-ranges.ts';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import * as wasm from '../wasm/wasm-code.ts';
import type { WasmFunction } from '../wasm/wasm-code.ts';

export interface GraphProductData {
  readonly in: number;
  readonly out: number;
  /** Names of the addends, in the order of their addresses. */
  readonly sumNames: readonly string[];
  /** Some columns each. */
  readonly columns: readonly (ColumnRange & { readonly place: OnnxSessionPlace })[];
}

/** Valid while the graphs are open. */
export interface GraphProductWorkData {
  readonly products: readonly GraphProductData[];
  readonly memory: SharedWasmMemory;
  /** Buffer of each thread for the columns of each sum, [rows, columns], contiguous. */
  readonly buffers: readonly number[];
  /** Float64, because addresses may exceed 2 GiB. */
  readonly cells: Float64Array;
}

/** Addresses are bytes. */
export const GRAPH_PRODUCT_CELL = {
  product: 0,
  numRows: 1,
  x: 2,
  y: 3,
  firstSum: 4,
  secondSum: 5,
} as const;

/** Product work of one thread: a unit is some columns. */
export class GraphProductWork {
  readonly #products: readonly GraphProductData[];
  readonly #memory: SharedArrayBuffer;
  readonly #buffer: number;
  readonly #cells: Float64Array;
  readonly #copyRows: CopyRows;
  readonly #graphs: (BorrowedOnnxSession | undefined)[][];

  constructor({ products, memory, buffers, cells }: GraphProductWorkData, thread: number) {
    this.#products = products;
    this.#memory = memory.buffer;
    this.#buffer = buffers[thread]!;
    this.#cells = cells;
    this.#copyRows = instantiate<{ copyRows: CopyRows }>(compileModule(copyingModule()), memory).copyRows;
    this.#graphs = products.map(() => []);
  }

  compute(unit: number): void {
    const cells = this.#cells;
    const product = cells[GRAPH_PRODUCT_CELL.product]!;
    const numRows = cells[GRAPH_PRODUCT_CELL.numRows]!;
    const { in: inner, out, sumNames, columns } = this.#products[product]!;
    const { first, count, place } = columns[unit]!;
    const graph = (this.#graphs[product]![unit] ??= new BorrowedOnnxSession(place));
    const tensors = new Map([['x', this.#rows(cells[GRAPH_PRODUCT_CELL.x]!, numRows, inner)]]);
    const sums = sumNames.map((_, i) => cells[GRAPH_PRODUCT_CELL.firstSum + i]!);
    const y = cells[GRAPH_PRODUCT_CELL.y]!;
    const isWhole = count === out;
    // Native code needs rows without gaps.
    const [rowBytes, someBytes] = [4 * out, 4 * count];
    const bufferOf = (sum: number): number => this.#buffer + sum * numRows * someBytes;
    for (const [i, name] of sumNames.entries()) {
      const sum = isWhole ? sums[i]! : bufferOf(i);
      if (!isWhole)
        this.#copyRows(sums[i]! + 4 * first, rowBytes, sum, someBytes, sum + numRows * someBytes, someBytes);
      tensors.set(name, this.#rows(sum, numRows, count));
    }
    const results = isWhole ? y : this.#buffer;
    graph.run(
      place.inputNames.map((name) => tensors.get(name)!),
      [this.#rows(results, numRows, count)],
    );
    if (isWhole) return;
    this.#copyRows(results, someBytes, y + 4 * first, rowBytes, y + 4 * first + numRows * rowBytes, someBytes);
  }

  #rows(address: number, numRows: number, width: number): OnnxTensor {
    return { data: new Float32Array(this.#memory, address, numRows * width), dims: [numRows, width] };
  }
}

/** Copies rows of `bytes`, a positive multiple of 16: rows `to` to `end`, at least one. */
// oxlint-disable-next-line eslint/max-params -- a WebAssembly function
type CopyRows = (from: number, fromRow: number, to: number, toRow: number, end: number, bytes: number) => void;

function copyingModule(): Uint8Array<ArrayBuffer> {
  const { I32, code, get, set, addI32, advance } = wasm;
  const [from, fromRow, to, toRow, end, bytes, at, into, intoEnd] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const row = code(
    code(get(from), set(at), get(to), set(into), get(to), get(bytes), addI32, set(intoEnd)),
    wasm.repeatWhileBelow(
      into,
      intoEnd,
      code(get(into), get(at), wasm.load4(0), wasm.store4(0), advance(at, 16), advance(into, 16)),
    ),
    code(get(from), get(fromRow), addI32, set(from), get(to), get(toRow), addI32, set(to)),
  );
  const copyRows: WasmFunction = {
    name: 'copyRows',
    parameters: Array.from({ length: 6 }, () => I32),
    locals: [[3, I32]],
    code: wasm.repeatWhileBelow(to, end, row),
  };
  return wasm.encodeModule([copyRows], { isShared: true });
}
