/** Zeroed memory that every lane (thread) sees. */
export const sharedFloats = (length: number): Float32Array => new Float32Array(new SharedArrayBuffer(4 * length));
export const sharedDoubles = (length: number): Float64Array => new Float64Array(new SharedArrayBuffer(8 * length));

/**
 * Float32 buffers by name, kept from call to call: zeroing and faulting in fresh memory for every row costs more than the
 * element-wise half of a layer. Contents are whatever the last user left.
 */
export class Workspace {
  readonly #buffers = new Map<string, Float32Array>();

  /** A view of exactly `length` elements; valid until the same name is taken again. */
  take(name: string, length: number): Float32Array {
    let buffer = this.#buffers.get(name);
    if (buffer === undefined || buffer.length < length) {
      buffer = sharedFloats(length);
      this.#buffers.set(name, buffer);
    }
    return buffer.subarray(0, length);
  }

  /** Forgets a buffer, so that its memory can be collected. */
  drop(name: string): void {
    this.#buffers.delete(name);
  }

  clear(): void {
    this.#buffers.clear();
  }

  get sizeBytes(): number {
    return this.#buffers.values().reduce((sum, buffer) => sum + buffer.byteLength, 0);
  }
}
