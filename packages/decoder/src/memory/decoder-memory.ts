import { MAX_MEMORY_BYTES, sharedMemory } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';

/** Memory of kernels that all threads see: reserved whole, taken from the machine as it is touched, given out from the start on. */
export class DecoderMemory {
  readonly shared: SharedWasmMemory;
  #end = 0;

  /** As much as an address reaches. */
  static readonly maxBytes = MAX_MEMORY_BYTES;

  constructor(sizeBytes: number) {
    this.shared = sharedMemory(sizeBytes);
  }

  /** Room for so many float32, at a multiple of 64 bytes. */
  take(length: number): Float32Array {
    const floats = this.floats(this.#end, length);
    this.#end += 64 * Math.ceil(length / 16);
    return floats;
  }

  /** All that is left. @returns where it begins, bytes */
  takeRest(): number {
    const start = this.#end;
    this.#end = this.shared.buffer.byteLength;
    return start;
  }

  floats(address: number, length: number): Float32Array {
    return new Float32Array(this.shared.buffer, address, length);
  }
}
