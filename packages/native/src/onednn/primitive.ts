import { koffi } from '../binding/koffi.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';

/** Data by address, in memory that another thread owns and keeps. */
export interface DataAt {
  readonly address: Address;
}

interface Argument {
  readonly memory: Address;
  /** Address of its data; null before the first run, or if the memory has its own. */
  data: ArrayBufferView | DataAt | null;
}

/** Compiled library code for matrices of certain shapes, with new data in each run. */
export class Primitive implements Disposable {
  readonly #library: OneDnnLibrary;
  readonly #primitive: Address;
  readonly #arguments: readonly Argument[];
  readonly #args: BigUint64Array;

  /** @param description destroyed here @param layouts of its matrices by number of the argument */
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

  /** Blocks until done. @param data of each matrix, in the order of the layouts; may be a memory of the library */
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
