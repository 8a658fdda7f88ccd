import assert from 'node:assert';
import { type BigIntStats, closeSync, fstatSync, openSync } from 'node:fs';
import { NativeError } from '../binding/errors.ts';
import { HeaderReader, readFully } from './header-reader.ts';
import { type GgufWritableValue, HeaderWriter } from './gguf-header-writer.ts';
import {
  aligned,
  type ByteRange,
  type GgufHeader,
  type GgufTensorInfo,
  type GgufValue,
  parseHeader,
} from './parse-header.ts';
import { readValues, type StoredValues, type TensorPlace } from './tensor-place.ts';
import type { TensorType } from './tensor-types.ts';

// Of a copy, in memory at once.
const PIECE_BYTES = 4 << 20;

/** Metadata is read at once, tensors on demand. Holds a file descriptor until closed. */
export class GgufFile implements Disposable {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensorInfo>;
  readonly #types: ReadonlyMap<string, TensorType>;
  readonly #header: Pick<GgufHeader, 'version' | 'alignment' | 'valueRanges' | 'tensorInfos' | 'data'>;
  #descriptor: number | null;

  /**
   * Accepts any bytes: a malformed file gives an error and takes memory in proportion to its size.
   *
   * @throws {NativeError} `native.gguf_malformed`, with the problem and its offset, or if the file cannot be
   * opened
   */
  static open(path: string): GgufFile {
    let descriptor: number;
    try {
      descriptor = openSync(path, 'r');
    } catch (cause) {
      throw new NativeError('native.gguf_malformed', `cannot open ${path}: ${String(cause)}`, { cause });
    }
    try {
      return new GgufFile(path, descriptor);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }

  private constructor(path: string, descriptor: number) {
    const header = headerOf(path, descriptor);
    this.path = path;
    this.#descriptor = descriptor;
    this.metadata = header.metadata;
    this.#header = header;
    this.tensors = new Map(header.tensors.map((tensor) => [tensor.info.name, tensor.info]));
    this.#types = new Map(header.tensors.map((tensor) => [tensor.info.name, tensor.type]));
  }

  /**
   * Reads a tensor's values in file order: shape `dims` reversed, row-major. Quantised blocks load the library for
   * ggml's own `to_float`.
   *
   * @param into as many elements as are read. Default: fresh memory for all, which costs as much again
   * @param first of them, a multiple of the type's block length. Default 0
   * @throws {NativeError} `native.gguf_malformed` if there is no such tensor, or ggml cannot expand its type
   */
  readF32(name: string, into?: Float32Array, first = 0): Float32Array {
    const place = this.place(name);
    const out = into ?? new Float32Array(place.numValues - first);
    readValues(place, first, out);
    return out;
  }

  /**
   * Place of a tensor, for other threads and for parts of it (`readValues`).
   *
   * @throws {NativeError} `native.gguf_malformed` if there is no such tensor
   */
  place(name: string): TensorPlace {
    assert(this.#descriptor !== null, 'this GgufFile is closed');
    const info = this.tensors.get(name);
    const type = this.#types.get(name);
    if (info === undefined || type === undefined) {
      throw new NativeError('native.gguf_malformed', `${this.path} has no tensor ${name}`);
    }
    const numValues = (info.sizeBytes / type.blockBytes) * type.blockLength;
    return { path: this.path, descriptor: this.#descriptor, offset: info.offset, typeId: type.id, numValues };
  }

  /**
   * Reads a tensor into memory as stored, for parts of it (`readValues`).
   *
   * @throws {NativeError} as `place`
   */
  readStored(name: string): StoredValues {
    const { typeId, numValues } = this.place(name);
    return { typeId, numValues, bytes: this.readRaw(name) };
  }

  /**
   * Reads a tensor as stored: blocks of its type, row by row.
   *
   * @param into at least as many bytes as the tensor has. Default: fresh memory
   * @returns a view of `into`
   * @throws {NativeError} `native.gguf_malformed` if there is no such tensor
   */
  readRaw(name: string, into?: Uint8Array): Uint8Array {
    assert(this.#descriptor !== null, 'this GgufFile is closed');
    const info = this.tensors.get(name);
    if (info === undefined) throw new NativeError('native.gguf_malformed', `${this.path} has no tensor ${name}`);
    const bytes = into?.subarray(0, info.sizeBytes) ?? new Uint8Array(info.sizeBytes);
    assert.equal(bytes.length, info.sizeBytes, `${name} needs as many bytes as it has`);
    readFully(this.#descriptor, bytes, info.offset, this.path);
    return bytes;
  }

  /** Keys in file order, for a copy that keeps the types. */
  rawMetadata(): Record<string, { readonly raw: Uint8Array }> {
    const entries = [...this.#header.valueRanges].map(
      ([key, range]) => [key, { raw: this.#readRange(range) }] as const,
    );
    return Object.fromEntries(entries);
  }

  /** Size of the tensors' data. */
  get dataBytes(): number {
    const { start, end } = this.#header.data;
    return end - start;
  }

  /**
   * Content of a copy with other metadata; its tensors are equal to the byte.
   *
   * @param values new values, which replace those of the same key
   * @returns pieces of at most 4 MB beside the header; each is valid until the next
   */
  *contentWith(values: Readonly<Record<string, GgufWritableValue>>): Generator<Uint8Array, void, undefined> {
    const { version, alignment, tensorInfos, data } = this.#header;
    const metadata: Record<string, GgufWritableValue> = { ...this.rawMetadata(), ...values };
    const header = new HeaderWriter();
    header.start(version, this.tensors.size, metadata);
    header.raw(this.#readRange(tensorInfos));
    const bytes = header.bytes();
    yield bytes;
    yield new Uint8Array(aligned(bytes.length, alignment) - bytes.length);
    const piece = new Uint8Array(PIECE_BYTES);
    for (let start = data.start; start < data.end; start += PIECE_BYTES)
      yield this.#readRange({ start, end: Math.min(start + PIECE_BYTES, data.end) }, piece);
  }

  #readRange({ start, end }: ByteRange, into = new Uint8Array(end - start)): Uint8Array {
    assert(this.#descriptor !== null, 'this GgufFile is closed');
    const bytes = into.subarray(0, end - start);
    readFully(this.#descriptor, bytes, start, this.path);
    return bytes;
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** A file may be written twice within the clock's resolution; by this age it has another time. */
const SETTLED_MS = 2000;

let last: { readonly version: string; readonly header: WeakRef<GgufHeader> } | null = null;

/** Opening a model parses the same 150,000 strings several times: the last header is kept while memory lasts. */
function headerOf(path: string, descriptor: number): GgufHeader {
  const stat = fstatSync(descriptor, { bigint: true });
  if (!stat.isFile()) throw new NativeError('native.gguf_malformed', `${path} is not a file`);
  const version = versionOf(stat);
  const known = last?.version === version ? last.header.deref() : undefined;
  if (known !== undefined) return known;
  const size = Number(stat.size);
  const header = parseHeader(new HeaderReader(path, descriptor, size), size);
  if (Date.now() - Number(stat.ctimeMs) > SETTLED_MS) last = { version, header: new WeakRef(header) };
  return header;
}

const versionOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  [dev, ino, size, mtimeNs, ctimeNs].join(' ');
