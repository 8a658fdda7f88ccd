import { koffi } from '../binding/koffi.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';

/** Data by their address: of memory that another thread has, and keeps. */
export interface DataAt {
  readonly address: Address;
}

interface Argument {
  readonly memory: Address;
  /** Where its data lie; null until they are said, or where the memory has its own. */
  data: ArrayBufferView | DataAt | null;
}

/** Code that the library has compiled for matrices of certain shapes. It has a memory for each, whose data may lie elsewhere in each run. */
export class Primitive implements Disposable {
  readonly #library: OneDnnLibrary;
  readonly #primitive: Address;
  readonly #arguments: readonly Argument[];
  readonly #args: BigUint64Array;

  /** @param description given up here @param layouts of its matrices by number of the argument */
  constructor(library: OneDnnLibrary, description: Address, layouts: readonly (readonly [number, Address])[]) {
    this.#library = library;
    try {
      this.#primitive = library.made((out) => library.primitiveCreate(out, description));
    } finally {
      library.primitiveDescriptionDestroy(description);
    }
    this.#arguments = layouts.map(([, layout]) => ({
      memory: library.made((out) => library.memoryCreate(out, layout, library.engine, 0n)),
      data: null,
    }));
    this.#args = BigUint64Array.from(layouts.flatMap(([number], i) => [BigInt(number), this.#arguments[i]!.memory]));
  }

  /** Blocks until all is computed. @param data of each matrix, in the order of the layouts; a memory of the library's where that has them */
  run(data: readonly (ArrayBufferView | DataAt | Address)[]): void {
    for (const [i, one] of data.entries()) {
      const argument = this.#arguments[i]!;
      if (typeof one === 'bigint') {
        this.#args[2 * i + 1] = one;
      } else if (argument.data === null || !isSamePlace(argument.data, one)) {
        const address = 'address' in one ? one.address : koffi().address(one);
        this.#library.check(this.#library.memorySetData(argument.memory, address));
        argument.data = one;
      }
    }
    this.#library.check(
      this.#library.execute(this.#primitive, this.#library.stream, this.#arguments.length, this.#args),
    );
  }

  [Symbol.dispose](): void {
    for (const { memory } of this.#arguments) this.#library.memoryDestroy(memory);
    this.#library.primitiveDestroy(this.#primitive);
  }
}

function isSamePlace(one: ArrayBufferView | DataAt, other: ArrayBufferView | DataAt): boolean {
  if ('address' in one) return 'address' in other && one.address === other.address;
  return !('address' in other) && one.buffer === other.buffer && one.byteOffset === other.byteOffset;
}
