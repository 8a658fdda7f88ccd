import { ProductKernels } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { kernelName, MAX_KERNEL_ROWS, packedModule, type ProductKernel } from './packed-code.ts';
import { BLOCK_VALUES, FORMATS, GROUP_BLOCK_BYTES, GROUP_ROWS, WASM_FORMATS } from './weight-formats.ts';

export interface PackedProductWorkData {
  readonly memory: SharedWasmMemory;
  /** Float64, because addresses may exceed 2 GiB. */
  readonly cells: Float64Array<SharedArrayBuffer>;
  /** Instruction set of the native kernels; null: WebAssembly computes. */
  readonly instructions: InstructionSet | null;
}

/**
 * y = sum + x · Wᵀ. Addresses are bytes from the memory's start; the order is that of `struct product` of the kernels in
 * C, for which weights, sums and results may be in another memory. No sum is NaN.
 */
export const PRODUCT_CELL = {
  format: 0,
  numRows: 1,
  x: 2,
  xRowBytes: 3,
  sum: 4,
  y: 5,
  yRowBytes: 6,
  weights: 7,
  numColumns: 8,
  columnsPerUnit: 9,
} as const;

/** A unit is some weight rows, which are result columns. Kernels in WebAssembly add to what y has, in whole groups. */
export class PackedProductWork {
  readonly #cells: Float64Array;
  readonly #kernels: readonly (readonly ProductKernel[])[] | ProductKernels;

  constructor({ memory, cells, instructions }: PackedProductWorkData) {
    this.#cells = cells;
    this.#kernels =
      instructions === null ? wasmKernels(memory) : new ProductKernels(memory.buffer, cells, instructions);
  }

  compute(unit: number): void {
    const kernels = this.#kernels;
    if (kernels instanceof ProductKernels) return kernels.addProduct(unit);
    const cells = this.#cells;
    const value = (name: keyof typeof PRODUCT_CELL): number => cells[PRODUCT_CELL[name]]!;
    const [format, xRowBytes, yRowBytes] = [value('format'), value('xRowBytes'), value('yRowBytes')];
    const groupBytes = (xRowBytes / 4 / BLOCK_VALUES) * GROUP_BLOCK_BYTES[FORMATS[format]!];
    const first = unit * value('columnsPerUnit');
    const end = Math.min(value('numColumns'), first + value('columnsPerUnit'));
    const weights = value('weights');
    const y = value('y') + 4 * first;
    const numRows = value('numRows');
    for (let row = 0; row < numRows; row += MAX_KERNEL_ROWS) {
      kernels[format]![Math.min(MAX_KERNEL_ROWS, numRows - row) - 1]!(
        value('x') + row * xRowBytes,
        xRowBytes,
        y + row * yRowBytes,
        yRowBytes,
        weights + (first / GROUP_ROWS) * groupBytes,
        weights + (end / GROUP_ROWS) * groupBytes,
      );
    }
  }
}

/** Kernels by format and by number of rows, from one on. */
function wasmKernels(memory: SharedWasmMemory): ProductKernel[][] {
  const kernels = instantiate<Readonly<Record<string, ProductKernel>>>(compileModule(packedModule()), memory);
  return WASM_FORMATS.map((format) =>
    Array.from({ length: MAX_KERNEL_ROWS }, (_, i) => kernels[kernelName(format, i + 1)]!),
  );
}
