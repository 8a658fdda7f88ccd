import { MAX_MEMORY_BYTES, sharedMemory } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';

/** Kernel memory shared by all threads: reserved at once, committed when touched, handed out from the start. */
export class DecoderMemory {
  readonly shared: SharedWasmMemory;
  #end = 0;

  static readonly maxBytes = MAX_MEMORY_BYTES;

  constructor(sizeBytes: number) {
    this.shared = sharedMemory(sizeBytes);
  }

  /** Takes `length` float32 at a multiple of 64 bytes. */
  take(length: number): Float32Array {
    const floats = this.floats(this.#end, length);
    this.#end += 64 * Math.ceil(length / 16);
    return floats;
  }

  /** Takes the rest. @returns its start, bytes */
  takeRest(): number {
    const start = this.#end;
    this.#end = this.shared.buffer.byteLength;
    return start;
  }

  floats(address: number, length: number): Float32Array {
    return new Float32Array(this.shared.buffer, address, length);
  }
}
