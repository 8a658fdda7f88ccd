/** Zeroed memory that all lanes (threads) share. */
export const sharedFloats = (length: number): Float32Array => new Float32Array(new SharedArrayBuffer(4 * length));
export const sharedDoubles = (length: number): Float64Array => new Float64Array(new SharedArrayBuffer(8 * length));

/** Reserved addresses; memory is committed when needed. */
const RESERVED_BYTES = 64 * 1024 ** 3;
const CACHE_LINE_BYTES = 64;

/**
 * Large float32 buffers of a pass by name, in one shared memory that only grows. Replaced buffers would stay
 * until every thread has collected them, and faulting in fresh pages costs more than the element-wise half of a
 * layer. Contents are those of the last pass.
 */
export class Workspace {
  #memory = new SharedArrayBuffer(0, { maxByteLength: RESERVED_BYTES });
  readonly #ranges = new Map<string, Float32Array>();
  #used = 0;

  /** Views of the names must not be used any more. */
  begin(): void {
    this.#ranges.clear();
    this.#used = 0;
  }

  /** Returns the same view for a name until `begin`. @throws {RangeError} if no memory is left */
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

  /** No `take` may follow. */
  clear(): void {
    this.begin();
    this.#memory = new SharedArrayBuffer(0);
  }

  get sizeBytes(): number {
    return this.#memory.byteLength;
  }
}

/**
 * Buffers of one thread by name, valid until the next graph run; fresh memory would keep the garbage collector
 * busy.
 */
export class Scratch {
  readonly #buffers = new Map<string, Float32Array>();

  /** Returns exactly `length` elements, valid until the name is taken again. */
  take(name: string, length: number): Float32Array {
    let buffer = this.#buffers.get(name);
    if (buffer === undefined || buffer.length < length) {
      // Lengths vary a little between runs.
      buffer = new Float32Array(Math.ceil(1.25 * length));
      this.#buffers.set(name, buffer);
    }
    return buffer.subarray(0, length);
  }

  clear(): void {
    this.#buffers.clear();
  }
}
