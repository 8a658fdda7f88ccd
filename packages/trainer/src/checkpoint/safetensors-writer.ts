import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';

export interface SafetensorsShape {
  readonly name: string;
  /** Row-major. */
  readonly dims: readonly number[];
  /** `F16` rounds to the nearest, ties to even. */
  readonly dtype: 'F32' | 'F16';
}

const ALIGNMENT = 8;
// Values converted at once, so that a tensor is not in memory twice.
const PIECE_VALUES = 1 << 20;

/**
 * Writes one tensor after the other in the order of the header. @see
 * https://github.com/huggingface/safetensors#format
 */
export class SafetensorsWriter implements Disposable {
  readonly #tensors: readonly SafetensorsShape[];
  readonly #hash = createHash('sha256');
  #numWritten = 0;
  #descriptor: number | null;

  /** @param path must not exist */
  constructor(path: string, tensors: readonly SafetensorsShape[], metadata: Readonly<Record<string, string>>) {
    this.#tensors = tensors;
    const entries: Record<string, unknown> = { __metadata__: metadata };
    let offset = 0;
    for (const { name, dims, dtype } of tensors) {
      const end = offset + sizeBytes(dims, dtype);
      entries[name] = { dtype, shape: dims, data_offsets: [offset, end] };
      offset = end;
    }
    const json = Buffer.from(JSON.stringify(entries));
    const header = Buffer.alloc(8 + Math.ceil(json.length / ALIGNMENT) * ALIGNMENT, ' ');
    header.writeBigUInt64LE(BigInt(header.length - 8));
    json.copy(header, 8);
    this.#descriptor = openSync(path, 'wx');
    this.#write(header);
  }

  add(data: Float32Array): void {
    const tensor = this.#tensors[this.#numWritten];
    assert(tensor !== undefined, `all ${this.#tensors.length} tensors are written`);
    const { name, dims, dtype } = tensor;
    assert.equal(data.length, sizeBytes(dims, dtype) / BYTES[dtype], `tensor ${name} of [${dims.join(', ')}]`);
    if (dtype === 'F32') this.#write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    else {
      for (let at = 0; at < data.length; at += PIECE_VALUES) {
        this.#write(new Uint8Array(new Float16Array(data.subarray(at, at + PIECE_VALUES)).buffer));
      }
    }
    this.#numWritten += 1;
  }

  /** Requires all tensors, and syncs the file to disk. @returns sha256 of its bytes, hex */
  finish(): string {
    assert.equal(this.#numWritten, this.#tensors.length, 'every tensor of the header must be written');
    assert(this.#descriptor !== null, 'this SafetensorsWriter is closed');
    fsyncSync(this.#descriptor);
    this[Symbol.dispose]();
    return this.#hash.digest('hex');
  }

  /** Works for unfinished files too. */
  [Symbol.dispose](): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  #write(bytes: Uint8Array): void {
    assert(this.#descriptor !== null, 'this SafetensorsWriter is closed');
    this.#hash.update(bytes);
    for (let done = 0; done < bytes.length;) done += writeSync(this.#descriptor, bytes, done);
  }
}

const BYTES = { F32: 4, F16: 2 } as const;

function sizeBytes(dims: readonly number[], dtype: 'F32' | 'F16'): number {
  return dims.reduce((product, dim) => product * dim, 1) * BYTES[dtype];
}
