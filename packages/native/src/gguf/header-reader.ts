import { readSync } from 'node:fs';
import { NativeError } from '../binding/errors.ts';

export const VALUE_TYPES = [
  'u8',
  'i8',
  'u16',
  'i16',
  'u32',
  'i32',
  'f32',
  'bool',
  'string',
  'array',
  'u64',
  'i64',
  'f64',
] as const;
export type ValueType = (typeof VALUE_TYPES)[number];

const CHUNK_BYTES = 1 << 20;

/**
 * Every length is checked against the remaining bytes before allocation, so a corrupt length costs an error and
 * no memory.
 */
export class HeaderReader {
  readonly #path: string;
  readonly #descriptor: number;
  readonly #fileBytes: number;
  #chunk: Buffer = Buffer.alloc(0);
  #chunkStart = 0;
  #position = 0; // in the chunk

  constructor(path: string, descriptor: number, fileBytes: number) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#fileBytes = fileBytes;
  }

  get offset(): number {
    return this.#chunkStart + this.#position;
  }

  get remaining(): number {
    return this.#fileBytes - this.offset;
  }

  fail(what: string, offset = this.offset): never {
    throw new NativeError(
      'native.gguf_malformed',
      `${this.#path} is not a readable GGUF file: ${what} at offset ${offset}`,
    );
  }

  u8(): number {
    const at = this.#take(1);
    return this.#chunk.readUInt8(at);
  }
  i8(): number {
    const at = this.#take(1);
    return this.#chunk.readInt8(at);
  }
  u16(): number {
    const at = this.#take(2);
    return this.#chunk.readUInt16LE(at);
  }
  i16(): number {
    const at = this.#take(2);
    return this.#chunk.readInt16LE(at);
  }
  u32(): number {
    const at = this.#take(4);
    return this.#chunk.readUInt32LE(at);
  }
  i32(): number {
    const at = this.#take(4);
    return this.#chunk.readInt32LE(at);
  }
  f32(): number {
    const at = this.#take(4);
    return this.#chunk.readFloatLE(at);
  }
  f64(): number {
    const at = this.#take(8);
    return this.#chunk.readDoubleLE(at);
  }
  u64(): bigint {
    const at = this.#take(8);
    return this.#chunk.readBigUInt64LE(at);
  }
  i64(): bigint {
    const at = this.#take(8);
    return this.#chunk.readBigInt64LE(at);
  }

  bool(): boolean {
    const start = this.offset;
    const byte = this.u8();
    if (byte > 1) this.fail(`a boolean of value ${byte}`, start);
    return byte === 1;
  }

  /** Bytes that are not UTF-8 become U+FFFD; vocabularies do contain such pieces. */
  string(): string {
    const length = this.count('bytes of text', 1);
    const start = this.#take(length);
    return this.#chunk.toString('utf8', start, start + length);
  }

  /** Reads the number of items, each of at least `minBytes` bytes. */
  count(noun: string, minBytes: number): number {
    const start = this.offset;
    const count = this.u64();
    if (count > BigInt(Math.floor(this.remaining / minBytes))) {
      this.fail(`${count} ${noun} announced, but only ${this.remaining} bytes remain`, start);
    }
    return Number(count);
  }

  /** Skips `length` bytes and returns their start in the chunk. */
  #take(length: number): number {
    if (length > this.remaining) this.fail(`the file ends: ${length} bytes needed, ${this.remaining} left`);
    if (this.#position + length > this.#chunk.length) this.#refill(length);
    const start = this.#position;
    this.#position += length;
    return start;
  }

  #refill(needed: number): void {
    this.#chunkStart += this.#position;
    this.#position = 0;
    const size = Math.min(Math.max(needed, CHUNK_BYTES), this.#fileBytes - this.#chunkStart);
    this.#chunk = Buffer.allocUnsafe(size);
    readFully(this.#descriptor, this.#chunk, this.#chunkStart, this.#path);
  }
}

/** @throws {NativeError} `native.gguf_malformed` if the file has become shorter */
export function readFully(descriptor: number, out: Uint8Array, offset: number, path: string): void {
  for (let done = 0; done < out.length;) {
    const count = readSync(descriptor, out, done, out.length - done, offset + done);
    if (count === 0) throw new NativeError('native.gguf_malformed', `${path} ends at offset ${offset + done}`);
    done += count;
  }
}
