import assert from 'node:assert';
import { closeSync, openSync, writeSync } from 'node:fs';
import { HeaderWriter } from './gguf-header-writer.ts';
import { TENSOR_TYPES } from './tensor-types.ts';
import type { GgufWritableValue } from './gguf-header-writer.ts';

/** Types in which values are stored; `f16` rounds to the nearest, ties to even. Others are given as bytes. */
export type GgufStoredType = 'f32' | 'f16' | 'bf16' | 'mxfp4';

export interface GgufTensorShape {
  readonly name: string;
  /** ggml order: `dims[0]` is the contiguous (input) axis. */
  readonly dims: readonly number[];
  readonly type: GgufStoredType;
}

const VERSION = 3;
const ALIGNMENT = 32;
const TYPE_IDS: Readonly<Record<GgufStoredType, number>> = { f32: 0, f16: 1, bf16: 30, mxfp4: 39 };
// Values converted at once, so that a tensor is not in memory twice.
const PIECE_VALUES = 1 << 20;

/** Bytes of values. @param numValues whole blocks of the type */
export function storedBytes(type: GgufStoredType, numValues: number): number {
  const { blockBytes, blockLength } = TENSOR_TYPES.get(TYPE_IDS[type])!;
  assert(numValues % blockLength === 0, `${type} has blocks of ${blockLength} values, and not ${numValues}`);
  return (numValues / blockLength) * blockBytes;
}

/** Writes one tensor after the other, in the order of the header. */
export class GgufWriter implements Disposable {
  readonly #tensors: readonly GgufTensorShape[];
  #numWritten = 0;
  #descriptor: number | null;

  /**
   * @param path must not exist; the caller syncs it
   * @param metadata in the order of its keys; `general.alignment`, if present, must be 32
   */
  constructor(
    path: string,
    metadata: Readonly<Record<string, GgufWritableValue>>,
    tensors: readonly GgufTensorShape[],
  ) {
    this.#tensors = tensors;
    const header = new HeaderWriter();
    header.start(VERSION, tensors.length, metadata);
    let offset = 0;
    for (const { name, dims, type } of tensors) {
      assert(dims.length >= 1 && dims.length <= 4, `tensor ${name} has ${dims.length} dimensions, 1 to 4 are possible`);
      header.value('string', name);
      header.value('u32', dims.length);
      for (const dim of dims) header.value('u64', dim);
      header.value('u32', TYPE_IDS[type]);
      header.value('u64', offset);
      offset += padded(storedBytes(type, numElements(dims)));
    }
    this.#descriptor = openSync(path, 'wx');
    const bytes = header.bytes();
    this.#write(bytes);
    this.#pad(bytes.length);
  }

  /** Writes the next tensor, of type f32 or f16, from its values. */
  add(data: Float32Array): void {
    const { name, dims, type } = this.#next();
    assert(numElements(dims) === data.length, `tensor ${name} of [${dims.join(', ')}] has ${data.length} values`);
    assert(type !== 'bf16', `tensor ${name} is bf16, which is written as bytes`);
    this.addBytes(type === 'f32' ? [new Uint8Array(data.buffer, data.byteOffset, data.byteLength)] : halves(data));
  }

  /** Writes the next tensor from bytes of its type, in pieces of any length. */
  addBytes(pieces: Iterable<Uint8Array>): void {
    const { name, dims, type } = this.#next();
    let length = 0;
    for (const piece of pieces) {
      this.#write(piece);
      length += piece.length;
    }
    const expected = storedBytes(type, numElements(dims));
    assert(length === expected, `tensor ${name} of [${dims.join(', ')}]: ${length} bytes`);
    this.#pad(length);
    this.#numWritten += 1;
  }

  finish(): void {
    const { length } = this.#tensors;
    assert(this.#numWritten === length, `${this.#numWritten} of ${length} tensors are written`);
    this[Symbol.dispose]();
  }

  /** Closes the file, finished or not. */
  [Symbol.dispose](): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  #next(): GgufTensorShape {
    const tensor = this.#tensors[this.#numWritten];
    assert(tensor !== undefined, `all ${this.#tensors.length} tensors are written`);
    return tensor;
  }

  #pad(length: number): void {
    const rest = padded(length) - length;
    if (rest > 0) this.#write(new Uint8Array(rest));
  }

  #write(bytes: Uint8Array): void {
    assert(this.#descriptor !== null, 'this GgufWriter is closed');
    for (let done = 0; done < bytes.length;) done += writeSync(this.#descriptor, bytes, done);
  }
}

function* halves(data: Float32Array): Generator<Uint8Array> {
  for (let at = 0; at < data.length; at += PIECE_VALUES)
    yield new Uint8Array(new Float16Array(data.subarray(at, at + PIECE_VALUES)).buffer);
}

const numElements = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);

const padded = (length: number): number => Math.ceil(length / ALIGNMENT) * ALIGNMENT;
