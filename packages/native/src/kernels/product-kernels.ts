import type { KoffiFunc } from 'koffi';
import { addressOf } from '../binding/address-of.ts';
import { bindKernel, type InstructionSet } from './kernel-library.ts';

type ProductKernel = KoffiFunc<(memory: bigint, cells: bigint, unit: number) => void>;

/** Products by quantised weights in one memory, in C. The caller's cells must describe places in that memory. */
export class ProductKernels {
  readonly #memory: ArrayBufferView;
  readonly #cells: Float64Array;
  readonly #places: readonly [memory: bigint, cells: bigint];
  readonly #addProduct: ProductKernel;

  /**
   * @param memory must not move
   * @param cells fields of `struct product` of `products.c`; on a shared buffer, which does not move
   * @param instructions of {@link kernelInstructionSets}
   */
  constructor(memory: SharedArrayBuffer, cells: Float64Array<SharedArrayBuffer>, instructions: InstructionSet) {
    this.#addProduct = bindKernel('add_product', ['uintptr_t', 'uintptr_t', 'int32'], instructions);
    this.#memory = new Uint8Array(memory);
    this.#cells = cells;
    this.#places = [addressOf(this.#memory), addressOf(this.#cells)];
  }

  /** Adds the products of a unit to y. */
  addProduct(unit: number): void {
    this.#addProduct(...this.#places, unit);
  }
}
