/** Zeroed memory that every lane (thread) sees. */
export const sharedFloats = (length: number): Float32Array => new Float32Array(new SharedArrayBuffer(4 * length));
export const sharedDoubles = (length: number): Float64Array => new Float64Array(new SharedArrayBuffer(8 * length));

/** Addresses that are set aside; memory is taken as it is needed. */
const RESERVED_BYTES = 64 * 1024 ** 3;
const CACHE_LINE_BYTES = 64;

/**
 * The large float32 buffers of a pass by name, one behind the other in one piece of shared memory that only grows. So the memory is that of the
 * largest pass, whatever came before it: buffers that are replaced by larger ones would stay until every thread has collected them. And a pass
 * finds its memory warm: faulting in fresh pages costs more than the element-wise half of a layer. Contents are whatever the last pass left.
 */
export class Workspace {
  #memory = new SharedArrayBuffer(0, { maxByteLength: RESERVED_BYTES });
  readonly #ranges = new Map<string, Float32Array>();
  #used = 0;

  /** Forgets all names, whose views must not be used any more. */
  begin(): void {
    this.#ranges.clear();
    this.#used = 0;
  }

  /**
   * The same view each time, until `begin`.
   * @throws {RangeError} when there is no more memory
   */
  take(name: string, length: number): Float32Array {
    let range = this.#ranges.get(name);
    if (range === undefined) {
      const end = this.#used + 4 * length;
      if (end > this.#memory.byteLength) this.#memory.grow(end);
      range = new Float32Array(this.#memory, this.#used, length);
      this.#ranges.set(name, range);
      this.#used = CACHE_LINE_BYTES * Math.ceil(end / CACHE_LINE_BYTES);
    }
    if (range.length !== length)
      throw new RangeError(`${name} has ${range.length} elements in this pass, not ${length}`);
    return range;
  }

  /** Gives the memory back, once nothing uses it. Nothing can be taken any more. */
  clear(): void {
    this.begin();
    this.#memory = new SharedArrayBuffer(0);
  }

  get sizeBytes(): number {
    return this.#memory.byteLength;
  }
}

/** Small float32 buffers of one thread by name, for what does not outlive the next graph run: fresh memory for each would be collected all the time. */
export class Scratch {
  readonly #buffers = new Map<string, Float32Array>();

  /** A view of exactly `length` elements; valid until the same name is taken again. */
  take(name: string, length: number): Float32Array {
    let buffer = this.#buffers.get(name);
    if (buffer === undefined || buffer.length < length) {
      // Lengths vary a little from run to run.
      buffer = new Float32Array(Math.ceil(1.25 * length));
      this.#buffers.set(name, buffer);
    }
    return buffer.subarray(0, length);
  }

  clear(): void {
    this.#buffers.clear();
  }
}
