import { ProductKernels } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import {
  BLOCK_VALUES,
  GROUP_ROWS,
  groupBlockBytes,
  kernelName,
  MAX_KERNEL_ROWS,
  quantisedModule,
} from './quantised-code.ts';
import type { ProductKernel, WeightFormat } from './quantised-code.ts';

export interface ProductWorkData {
  readonly memory: SharedWasmMemory;
  /** Float64, because addresses may exceed 2 GiB. */
  readonly cells: Float64Array<SharedArrayBuffer>;
  /** Instruction set of the native kernels; null: WebAssembly computes. */
  readonly instructions: InstructionSet | null;
}

/** Addresses are bytes. The order is that of `struct product` of the kernels in C. */
export const PRODUCT_CELL = {
  format: 0,
  numRows: 1,
  x: 2,
  xRowBytes: 3,
  y: 4,
  yRowBytes: 5,
  weights: 6,
  numGroups: 7,
  groupsPerUnit: 8,
} as const;

export const FORMATS: readonly WeightFormat[] = ['affine4', 'scaled8'];

/** A unit is some groups of weight rows, which are result columns. */
export class ProductWork {
  readonly #cells: Float64Array;
  readonly #kernels: readonly (readonly ProductKernel[])[] | ProductKernels;

  constructor({ memory, cells, instructions }: ProductWorkData) {
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
    const groupBytes = (xRowBytes / 4 / BLOCK_VALUES) * groupBlockBytes(FORMATS[format]!);
    const first = unit * value('groupsPerUnit');
    const end = Math.min(value('numGroups'), first + value('groupsPerUnit'));
    const weights = value('weights');
    const y = value('y') + 4 * GROUP_ROWS * first;
    const numRows = value('numRows');
    for (let row = 0; row < numRows; row += MAX_KERNEL_ROWS) {
      kernels[format]![Math.min(MAX_KERNEL_ROWS, numRows - row) - 1]!(
        value('x') + row * xRowBytes,
        xRowBytes,
        y + row * yRowBytes,
        yRowBytes,
        weights + first * groupBytes,
        weights + end * groupBytes,
      );
    }
  }
}

/** Kernels by format and by number of rows, from one on. */
function wasmKernels(memory: SharedWasmMemory): ProductKernel[][] {
  const kernels = instantiate<Readonly<Record<string, ProductKernel>>>(compileModule(quantisedModule()), memory);
  return FORMATS.map((format) =>
    Array.from({ length: MAX_KERNEL_ROWS }, (_, i) => kernels[kernelName(format, i + 1)]!),
  );
}
