import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { TrainerError } from './errors.ts';

/** A float32 tensor, row-major. */
export interface NamedTensor {
  readonly name: string;
  readonly dims: readonly number[];
  /** As many values as the product of `dims`. */
  readonly data: Float32Array;
}

export interface SafetensorsFile {
  /** In the order of the data. */
  readonly tensors: ReadonlyMap<string, NamedTensor>;
  readonly metadata: Readonly<Record<string, string>>;
  /** sha256 of the whole file, hex. */
  readonly digest: string;
}

/** The format allows 100 MB; ours stay far below it. */
const MAX_HEADER_BYTES = 100_000_000;
const ALIGNMENT = 8;

/**
 * Writes a new file of float32 tensors in the given order and syncs it to disk.
 *
 * @returns sha256 of its bytes, hex: equal tensors and metadata give equal files.
 * @see https://github.com/huggingface/safetensors#format
 */
export function writeSafetensors(
  path: string,
  tensors: readonly NamedTensor[],
  metadata: Readonly<Record<string, string>>,
): string {
  const entries: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const { name, dims, data } of tensors) {
    entries[name] = { dtype: 'F32', shape: dims, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const json = Buffer.from(JSON.stringify(entries));
  const header = Buffer.alloc(8 + Math.ceil(json.length / ALIGNMENT) * ALIGNMENT, ' ');
  header.writeBigUInt64LE(BigInt(header.length - 8));
  json.copy(header, 8);
  const hash = createHash('sha256');
  const descriptor = openSync(path, 'wx');
  try {
    for (const bytes of [
      header,
      ...tensors.map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
    ]) {
      hash.update(bytes);
      for (let done = 0; done < bytes.length;) done += writeSync(descriptor, bytes, done);
    }
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  return hash.digest('hex');
}

/**
 * Reads a file of float32 tensors, checking that header and data agree to the byte.
 *
 * @throws {TrainerError} `trainer.checkpoint_unreadable`, naming the file and what is wrong with it
 */
export function readSafetensors(path: string): SafetensorsFile {
  const fail = (message: string, cause?: unknown): never => {
    throw new TrainerError('trainer.checkpoint_unreadable', `${path}: ${message}`, { cause });
  };
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    return fail((cause as Error).message, cause);
  }
  if (bytes.length < 8) fail(`${bytes.length} bytes are too few for a safetensors file`);
  const headerLength = bytes.readBigUInt64LE();
  if (headerLength > BigInt(Math.min(MAX_HEADER_BYTES, bytes.length - 8)))
    fail(`its header of ${headerLength} bytes does not fit`);
  const dataStart = 8 + Number(headerLength);
  let entries: unknown;
  try {
    entries = JSON.parse(bytes.toString('utf8', 8, dataStart));
  } catch (cause) {
    return fail('its header is not JSON', cause);
  }
  if (!isRecord(entries)) return fail('its header is not an object');
  const { __metadata__: metadata = {}, ...described } = entries;
  if (!isRecord(metadata) || !Object.values(metadata).every((value) => typeof value === 'string')) {
    return fail('its metadata are not strings');
  }
  const tensors = new Map<string, NamedTensor>();
  let expectedStart = 0;
  for (const [name, entry] of Object.entries(described)) {
    const { dims, start, end } =
      tensorEntry(entry) ?? fail(`tensor ${name} is not described as F32 with shape and data_offsets`);
    if (start !== expectedStart) fail(`tensor ${name} starts at ${start}, expected ${expectedStart}`);
    if (end - start !== 4 * dims.reduce((product, dim) => product * dim, 1)) {
      fail(`tensor ${name} of [${dims.join(', ')}] has ${end - start} bytes`);
    }
    if (dataStart + end > bytes.length) fail(`tensor ${name} ends beyond the end of the file`);
    // Copied: a view would need an aligned offset, and would keep the whole file in memory.
    tensors.set(name, {
      name,
      dims,
      data: new Float32Array(
        bytes.buffer.slice(bytes.byteOffset + dataStart + start, bytes.byteOffset + dataStart + end),
      ),
    });
    expectedStart = end;
  }
  if (dataStart + expectedStart !== bytes.length)
    fail(`${bytes.length - dataStart - expectedStart} bytes belong to no tensor`);
  return {
    tensors,
    metadata: metadata as Record<string, string>,
    digest: createHash('sha256').update(bytes).digest('hex'),
  };
}

function tensorEntry(entry: unknown): { dims: number[]; start: number; end: number } | null {
  if (!isRecord(entry) || entry['dtype'] !== 'F32') return null;
  const { shape, data_offsets: offsets } = entry;
  if (!isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) return null;
  return { dims: shape, start: offsets[0]!, end: offsets[1]! };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count >= 0);
}
