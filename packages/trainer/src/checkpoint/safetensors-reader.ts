import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { shown } from '@trainyard/native';
import { TrainerError } from '../contract/errors.ts';

/** Readable as float32. */
const DTYPE_BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
export type SafetensorsDtype = keyof typeof DTYPE_BYTES;
/** With bytes that are no numbers. */
const WITH_BYTES = { ...DTYPE_BYTES, U8: 1 } as const;

export interface SafetensorsEntry {
  readonly name: string;
  readonly dims: readonly number[];
  readonly dtype: SafetensorsDtype | 'U8';
  /** Byte offsets in the file. */
  readonly start: number;
  readonly end: number;
}

/** A header takes memory in proportion to its size. */
const MAX_HEADER_BYTES = 100_000_000;
/** The same as in PyTorch and NumPy. */
const MAX_DIMS = 64;
const PIECE_BYTES = 4 << 20;

/** Reads the header at once, tensors on demand. Accepts any bytes. */
export class SafetensorsReader implements Disposable {
  /** Ordered like the data, which they cover without gap or overlap. */
  readonly entries: ReadonlyMap<string, SafetensorsEntry>;
  readonly metadata: Readonly<Record<string, string>>;
  readonly #path: string;
  #descriptor: number | null;

  /**
   * @param readsBytes true accepts tensors of U8, whose pieces can be read. Default false
   * @throws {TrainerError} `trainer.checkpoint_unreadable` with the file and the problem
   */
  static open(path: string, readsBytes = false): SafetensorsReader {
    let descriptor: number;
    try {
      descriptor = openSync(path, 'r');
    } catch (cause) {
      throw unreadable(path, (cause as Error).message, cause);
    }
    try {
      return new SafetensorsReader(path, descriptor, readsBytes ? WITH_BYTES : DTYPE_BYTES);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }

  private constructor(path: string, descriptor: number, dtypes: Readonly<Record<string, number>>) {
    this.#path = path;
    this.#descriptor = descriptor;
    const { size } = fstatSync(descriptor);
    if (size < 8) throw unreadable(path, `${size} bytes are too few for a safetensors file`);
    const headerLength = this.#read(0, 8).readBigUInt64LE();
    if (headerLength > BigInt(Math.min(MAX_HEADER_BYTES, size - 8)))
      throw unreadable(path, `its header of ${headerLength} bytes does not fit`);
    const dataStart = 8 + Number(headerLength);
    const header = parseHeader(path, this.#read(8, Number(headerLength)).toString('utf8'));
    this.metadata = header.metadata;
    this.entries = placeEntries(path, header.described, { dataStart, fileBytes: size, dtypes });
  }

  /** Row-major. @throws {TrainerError} `trainer.checkpoint_unreadable` if the tensor is missing */
  readF32(name: string): Float32Array {
    const { start, end, dtype } = this.#entry(name);
    if (dtype === 'U8') throw unreadable(this.#path, `tensor ${shown(name)} has bytes, not numbers`);
    const values = new Float32Array((end - start) / DTYPE_BYTES[dtype]);
    let at = 0;
    for (const bytes of this.pieces(name)) {
      values.set(expand(bytes, dtype), at);
      at += bytes.length / DTYPE_BYTES[dtype];
    }
    return values;
  }

  /** Bytes as stored, in pieces of `pieceBytes` and a last one, each valid until the next. @throws as `readF32` */
  *pieces(name: string, pieceBytes = PIECE_BYTES): Generator<Buffer<ArrayBuffer>> {
    const { start, end } = this.#entry(name);
    const memory = Buffer.from(new ArrayBuffer(Math.min(pieceBytes, end - start)));
    for (let at = start; at < end; at += pieceBytes)
      yield this.#fill(memory.subarray(0, Math.min(pieceBytes, end - at)), at);
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #entry(name: string): SafetensorsEntry {
    const entry = this.entries.get(name);
    if (entry === undefined) throw unreadable(this.#path, `tensor ${name} is missing`);
    return entry;
  }

  #read(start: number, length: number): Buffer<ArrayBuffer> {
    return this.#fill(Buffer.from(new ArrayBuffer(length)), start);
  }

  #fill(bytes: Buffer<ArrayBuffer>, start: number): Buffer<ArrayBuffer> {
    if (this.#descriptor === null) throw unreadable(this.#path, 'it was closed');
    for (let done = 0; done < bytes.length;) {
      const count = readSync(this.#descriptor, bytes, done, bytes.length - done, start + done);
      if (count === 0) throw unreadable(this.#path, 'it became shorter while it was read');
      done += count;
    }
    return bytes;
  }
}

/** @param bytes aligned for any element */
function expand(bytes: Buffer<ArrayBuffer>, dtype: SafetensorsDtype): Float32Array | Float16Array {
  switch (dtype) {
    case 'F32':
      return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    case 'F16':
      return new Float16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
    case 'BF16': // the upper half of a float32
      return new Float32Array(
        Uint32Array.from(new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2), (bits) => bits << 16)
          .buffer,
      );
    default:
      return dtype satisfies never;
  }
}

function parseHeader(path: string, text: string) {
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch (cause) {
    throw unreadable(path, 'its header is not JSON', cause);
  }
  if (!isRecord(header)) throw unreadable(path, 'its header is not an object');
  const twice = repeatedKey(text);
  if (twice !== null) throw unreadable(path, `tensor ${shown(twice)} is described twice`);
  const { __metadata__: metadata = {}, ...described } = header;
  if (!isRecord(metadata) || !Object.values(metadata).every((value) => typeof value === 'string')) {
    throw unreadable(path, 'its metadata are not strings');
  }
  return { metadata: metadata as Record<string, string>, described };
}

/** A key of the outermost object that occurs twice, of which `JSON.parse` keeps the last. @param text valid JSON */
function repeatedKey(text: string): string | null {
  const keys = new Set<string>();
  let depth = 0;
  for (const [token, isKey] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}[\]]/g)) {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    else if (depth === 1 && isKey !== undefined) {
      const key = JSON.parse(token.slice(0, token.length - isKey.length)) as string;
      if (keys.has(key)) return key;
      keys.add(key);
    }
  }
  return null;
}

function placeEntries(
  path: string,
  described: Readonly<Record<string, unknown>>,
  {
    dataStart,
    fileBytes,
    dtypes,
  }: {
    readonly dataStart: number;
    readonly fileBytes: number;
    /** Bytes of a value by the readable types. */
    readonly dtypes: Readonly<Record<string, number>>;
  },
): Map<string, SafetensorsEntry> {
  const entries = Object.entries(described).map(([name, description]) => describe(path, dtypes, name, description));
  // Other writers than the format's own may list tensors in another order than their data.
  entries.sort((first, second) => first.start - second.start || first.end - second.end);
  let expectedStart = 0;
  for (const { name, dims, dtype, start, end } of entries) {
    if (start !== expectedStart)
      throw unreadable(path, `tensor ${shown(name)} starts at ${start}, expected ${expectedStart}`);
    if (end - start !== dtypes[dtype]! * dims.reduce((product, dim) => product * dim, 1)) {
      throw unreadable(path, `tensor ${shown(name)} of [${dims.join(', ')}] has ${end - start} bytes`);
    }
    if (dataStart + end > fileBytes) throw unreadable(path, `tensor ${shown(name)} ends beyond the end of the file`);
    expectedStart = end;
  }
  if (dataStart + expectedStart !== fileBytes)
    throw unreadable(path, `${fileBytes - dataStart - expectedStart} bytes belong to no tensor`);
  return new Map(
    entries.map((entry) => [entry.name, { ...entry, start: dataStart + entry.start, end: dataStart + entry.end }]),
  );
}

function describe(
  path: string,
  dtypes: Readonly<Record<string, number>>,
  name: string,
  description: unknown,
): SafetensorsEntry {
  if (isRecord(description)) {
    const { dtype, shape, data_offsets: offsets } = description;
    const isKnown = typeof dtype === 'string' && Object.hasOwn(dtypes, dtype);
    if (isKnown && isCounts(shape) && shape.length <= MAX_DIMS && isCounts(offsets) && offsets.length === 2) {
      return { name, dtype: dtype as SafetensorsEntry['dtype'], dims: shape, start: offsets[0]!, end: offsets[1]! };
    }
    if (typeof dtype === 'string' && !isKnown) {
      throw unreadable(
        path,
        `tensor ${shown(name)} has the dtype ${shown(dtype)}; readable are ${Object.keys(dtypes).join(', ')}`,
      );
    }
  }
  throw unreadable(
    path,
    `tensor ${shown(name)} is not described by dtype, a shape of at most ${MAX_DIMS} dimensions and data_offsets`,
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count >= 0);
}

function unreadable(path: string, message: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.checkpoint_unreadable', `${path}: ${message}`, { cause });
}
