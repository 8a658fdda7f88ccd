import { VALUE_TYPES } from './header-reader.ts';
import type { HeaderReader, ValueType } from './header-reader.ts';
import { shown } from './shown.ts';
import { TENSOR_TYPES } from './tensor-types.ts';
import type { TensorType } from './tensor-types.ts';

const MAGIC = 0x46554747; // "GGUF", little-endian
const DEFAULT_ALIGNMENT = 32;
const MAX_DIMS = 4; // GGML_MAX_DIMS

// A JavaScript array takes more memory than its bytes. The largest real headers hold half a million values (a
// vocabulary with its merges), so this stops only files made to exhaust memory.
const MAX_METADATA_VALUES = 1 << 24;
const MAX_ARRAY_DEPTH = 4;

const MIN_VALUE_BYTES: Readonly<Record<ValueType, number>> = {
  u8: 1,
  i8: 1,
  u16: 2,
  i16: 2,
  u32: 4,
  i32: 4,
  f32: 4,
  bool: 1,
  string: 8,
  array: 12,
  u64: 8,
  i64: 8,
  f64: 8,
};

/** A metadata value; 64-bit integers are bigint. */
export type GgufValue = string | number | bigint | boolean | GgufValue[];

export interface GgufTensorInfo {
  readonly name: string;
  /** ggml order: `dims[0]` is the contiguous (input) axis. */
  readonly dims: readonly number[];
  /** ggml's name of the type, such as "f32", "f16", "q4_1", "q6_K". */
  readonly type: string;
  /** Offset from the start of the file. */
  readonly offset: number;
  readonly sizeBytes: number;
}

/** Bytes of a file, from `start` to before `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface GgufHeader {
  version: number;
  alignment: number;
  metadata: Map<string, GgufValue>;
  valueRanges: Map<string, ByteRange>;
  tensors: { info: GgufTensorInfo; type: TensorType }[];
  /** Names, shapes, types and places of the tensors; the places are relative to the data. */
  tensorInfos: ByteRange;
  /** Data of the tensors, with the padding between them. */
  data: ByteRange;
}

/**
 * Accepts versions 2 and 3, and checks that every tensor is inside the file.
 *
 * @throws {NativeError} `native.gguf_malformed`
 * @see https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
export function parseHeader(reader: HeaderReader, fileBytes: number): GgufHeader {
  if (reader.u32() !== MAGIC) reader.fail('no "GGUF" magic', 0);
  const version = reader.u32();
  if (version !== 2 && version !== 3) reader.fail(`version ${version} (2 and 3 are known)`, 4);
  // Minimum sizes: a name's length, dims, type and offset; a key's length, type and one byte.
  const numTensors = reader.count('tensors', 8 + 4 + 4 + 8);
  const numEntries = reader.count('metadata entries', 8 + 4 + 1);
  const metadata = new Map<string, GgufValue>();
  const valueRanges: GgufHeader['valueRanges'] = new Map();
  const budget = { values: MAX_METADATA_VALUES };
  for (let i = 0; i < numEntries; i++) {
    const start = reader.offset;
    const key = reader.string();
    if (metadata.has(key)) reader.fail(`metadata key ${shown(key)} a second time`, start);
    const valueStart = reader.offset;
    metadata.set(key, readValue(reader, readValueType(reader), budget, 0));
    valueRanges.set(key, { start: valueStart, end: reader.offset });
  }
  const alignment = alignmentOf(reader, metadata);
  const infosStart = reader.offset;
  const tensors = readTensors(reader, numTensors, alignment, fileBytes);
  const tensorInfos = { start: infosStart, end: reader.offset };
  // A file without tensors ends before its data would begin.
  const data = { start: Math.min(aligned(reader.offset, alignment), fileBytes), end: fileBytes };
  return { version, alignment, metadata, valueRanges, tensors, tensorInfos, data };
}

/** The next multiple of the alignment. */
export const aligned = (offset: number, alignment: number): number => Math.ceil(offset / alignment) * alignment;

function readValueType(reader: HeaderReader): ValueType {
  const start = reader.offset;
  const id = reader.u32();
  return VALUE_TYPES[id] ?? reader.fail(`unknown value type ${id}`, start);
}

function readValue(reader: HeaderReader, type: ValueType, budget: { values: number }, depth: number): GgufValue {
  if (--budget.values < 0) reader.fail(`more than ${MAX_METADATA_VALUES} metadata values`);
  if (type !== 'array') return reader[type]();
  if (depth === MAX_ARRAY_DEPTH) reader.fail(`arrays nested more than ${MAX_ARRAY_DEPTH} deep`);
  const elementType = readValueType(reader);
  const length = reader.count(`values of type ${elementType}`, MIN_VALUE_BYTES[elementType]);
  const values: GgufValue[] = [];
  for (let i = 0; i < length; i++) values.push(readValue(reader, elementType, budget, depth + 1));
  return values;
}

function alignmentOf(reader: HeaderReader, metadata: Map<string, GgufValue>): number {
  const value = metadata.get('general.alignment') ?? DEFAULT_ALIGNMENT;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || (value & (value - 1)) !== 0) {
    reader.fail(`general.alignment must be a power of two, it is ${shown(value)}`);
  }
  return value;
}

function readTensors(reader: HeaderReader, count: number, alignment: number, fileBytes: number): GgufHeader['tensors'] {
  const tensors: { info: GgufTensorInfo; type: TensorType; infoStart: number }[] = [];
  const names = new Set<string>();
  for (let i = 0; i < count; i++) {
    const infoStart = reader.offset;
    const name = reader.string();
    if (names.has(name)) reader.fail(`tensor ${shown(name)} a second time`, infoStart);
    names.add(name);
    const dims = readDims(reader);
    const typeId = reader.u32();
    const type = TENSOR_TYPES.get(typeId) ?? reader.fail(`unknown tensor type ${typeId}`, infoStart);
    if ((dims[0] ?? 1) % type.blockLength !== 0) {
      reader.fail(`rows of ${dims[0]} in blocks of ${type.blockLength} (tensor ${shown(name)})`, infoStart);
    }
    const offset = reader.u64();
    if (offset % BigInt(alignment) !== 0n) reader.fail(`tensor data not aligned to ${alignment}`, infoStart);
    // Exact: the product of dims was checked to be a safe integer of at most fileBytes blocks.
    const sizeBytes = (dims.reduce((product, dim) => product * dim, 1) / type.blockLength) * type.blockBytes;
    if (offset > BigInt(fileBytes)) reader.fail(`tensor data beyond the end of the file`, infoStart);
    tensors.push({ info: { name, dims, type: type.name, offset: Number(offset), sizeBytes }, type, infoStart });
  }
  const dataStart = aligned(reader.offset, alignment);
  return tensors.map(({ info, type, infoStart }) => {
    const offset = dataStart + info.offset;
    if (offset + info.sizeBytes > fileBytes) {
      reader.fail(
        `tensor ${shown(info.name)} of ${info.sizeBytes} bytes at ${offset} in a file of ${fileBytes}`,
        infoStart,
      );
    }
    return { info: { ...info, offset }, type };
  });
}

function readDims(reader: HeaderReader): number[] {
  const start = reader.offset;
  const numDims = reader.u32();
  if (numDims < 1 || numDims > MAX_DIMS) reader.fail(`${numDims} dimensions (1 to ${MAX_DIMS} are possible)`, start);
  const dims: number[] = [];
  let numElements = 1n;
  for (let i = 0; i < numDims; i++) {
    const dim = reader.u64();
    numElements *= dim;
    if (numElements > BigInt(Number.MAX_SAFE_INTEGER) || dim < 1n) reader.fail(`a dimension of ${dim}`, start);
    dims.push(Number(dim));
  }
  return dims;
}
