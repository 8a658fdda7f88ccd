import assert from 'node:assert';
import type { Pointer } from './structs.ts';

/** Fails an assertion when used after `close`, instead of reading freed memory. */
export class NativeHandle {
  #address: Pointer | null;
  readonly #noun: string;
  readonly #free: (address: Pointer) => void;
  readonly #onClose = new Set<() => void>();

  constructor(noun: string, address: Pointer, free: (address: Pointer) => void) {
    this.#noun = noun;
    this.#address = address;
    this.#free = free;
  }

  get isOpen(): boolean {
    return this.#address !== null;
  }

  get address(): Pointer {
    assert(this.#address !== null, `this ${this.#noun} is closed`);
    return this.#address;
  }

  assertOpen(): void {
    assert(this.#address !== null, `this ${this.#noun} is closed`);
  }

  /** @returns a function that removes the listener */
  onClose(listener: () => void): () => void {
    this.#onClose.add(listener);
    return () => void this.#onClose.delete(listener);
  }

  close(): void {
    if (this.#address === null) return;
    // Listeners still need the address: a context removes the adapter before it is freed.
    for (const listener of this.#onClose) listener();
    const address = this.#address;
    this.#address = null;
    this.#free(address);
  }
}
