import assert from 'node:assert';
import { closeSync, openSync, writeSync } from 'node:fs';
import { replaceFile } from '../replace-file.ts';
import { VALUE_TYPES } from './header-reader.ts';
import type { ValueType } from './header-reader.ts';

type NumberType = 'u8' | 'i8' | 'u16' | 'i16' | 'u32' | 'i32' | 'f32' | 'f64';

/** A metadata value with its type; a bare number is f32. */
export type GgufWritableValue =
  | string
  | number
  | boolean
  | { readonly [T in NumberType]?: number }
  | { readonly u64: bigint }
  | { readonly i64: bigint }
  | {
      readonly array: {
        readonly type: Exclude<ValueType, 'array'>;
        readonly values: readonly (string | number | bigint | boolean)[];
      };
    };

export interface GgufTensorData {
  readonly name: string;
  /** ggml order: `dims[0]` is the contiguous (input) axis. */
  readonly dims: readonly number[];
  /** As many values as the product of `dims`; stored as f32. */
  readonly data: Float32Array;
}

const MAGIC = 'GGUF';
const VERSION = 3;
const ALIGNMENT = 32;
const F32 = 0;

/**
 * Writes a GGUF file of f32 tensors. `path` is whole or absent: a temporary file is synced and renamed.
 *
 * @param metadata in the order of its keys; give `general.architecture` and what the reader needs
 */
export function writeGguf(
  path: string,
  metadata: Readonly<Record<string, GgufWritableValue>>,
  tensors: readonly GgufTensorData[],
): void {
  const header = new HeaderWriter();
  header.raw(Buffer.from(MAGIC));
  header.value('u32', VERSION);
  header.value('u64', tensors.length);
  header.value('u64', Object.keys(metadata).length);
  for (const [key, value] of Object.entries(metadata)) {
    header.value('string', key);
    header.metadata(value);
  }
  let offset = 0;
  for (const { name, dims, data } of tensors) {
    assert(dims.length >= 1 && dims.length <= 4, `tensor ${name} has ${dims.length} dimensions, 1 to 4 are possible`);
    const numElements = dims.reduce((product, dim) => product * dim, 1);
    assert(numElements === data.length, `tensor ${name} of [${dims.join(', ')}] has ${data.length} values`);
    header.value('string', name);
    header.value('u32', dims.length);
    for (const dim of dims) header.value('u64', dim);
    header.value('u32', F32);
    header.value('u64', offset);
    offset += padded(data.byteLength);
  }
  replaceFile(path, (temporary) => {
    const descriptor = openSync(temporary, 'wx');
    try {
      writePadded(descriptor, header.bytes());
      for (const { data } of tensors)
        writePadded(descriptor, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    } finally {
      closeSync(descriptor);
    }
  });
}

function padded(length: number): number {
  return Math.ceil(length / ALIGNMENT) * ALIGNMENT;
}

function writePadded(descriptor: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(descriptor, bytes, done);
  const rest = padded(bytes.length) - bytes.length;
  if (rest > 0) writeSync(descriptor, new Uint8Array(rest));
}

class HeaderWriter {
  readonly #parts: Buffer[] = [];

  raw(bytes: Buffer): void {
    this.#parts.push(bytes);
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  /** A value after its type. */
  metadata(value: GgufWritableValue): void {
    if (typeof value === 'string') return this.#typed('string', value);
    if (typeof value === 'number') return this.#typed('f32', value);
    if (typeof value === 'boolean') return this.#typed('bool', value);
    const [[type, inner], ...others] = Object.entries(value) as [[string, unknown], ...[string, unknown][]];
    assert(others.length === 0, 'a metadata value has one type');
    if (type === 'array') {
      const { array } = value as Extract<GgufWritableValue, { array: unknown }>;
      this.value('u32', VALUE_TYPES.indexOf('array'));
      this.value('u32', VALUE_TYPES.indexOf(array.type));
      this.value('u64', array.values.length);
      for (const element of array.values) this.value(array.type, element);
      return;
    }
    this.#typed(type as Exclude<ValueType, 'array'>, inner as number | bigint);
  }

  #typed(type: Exclude<ValueType, 'array'>, value: string | number | bigint | boolean): void {
    this.value('u32', VALUE_TYPES.indexOf(type));
    this.value(type, value);
  }

  /** A value without its type. Numbers out of the type's range throw RangeError. */
  value(type: Exclude<ValueType, 'array'>, value: string | number | bigint | boolean): void {
    const bytes = Buffer.alloc(8);
    switch (type) {
      case 'string': {
        const text = Buffer.from(String(value), 'utf8');
        this.value('u64', text.length);
        return this.raw(text);
      }
      case 'bool':
        return this.raw(bytes.subarray(0, bytes.writeUInt8(value ? 1 : 0)));
      case 'u8':
        return this.raw(bytes.subarray(0, bytes.writeUInt8(Number(value))));
      case 'i8':
        return this.raw(bytes.subarray(0, bytes.writeInt8(Number(value))));
      case 'u16':
        return this.raw(bytes.subarray(0, bytes.writeUInt16LE(Number(value))));
      case 'i16':
        return this.raw(bytes.subarray(0, bytes.writeInt16LE(Number(value))));
      case 'u32':
        return this.raw(bytes.subarray(0, bytes.writeUInt32LE(Number(value))));
      case 'i32':
        return this.raw(bytes.subarray(0, bytes.writeInt32LE(Number(value))));
      case 'f32':
        return this.raw(bytes.subarray(0, bytes.writeFloatLE(Number(value))));
      case 'f64':
        return this.raw(bytes.subarray(0, bytes.writeDoubleLE(Number(value))));
      case 'u64':
        return this.raw(bytes.subarray(0, bytes.writeBigUInt64LE(BigInt(value))));
      case 'i64':
        return this.raw(bytes.subarray(0, bytes.writeBigInt64LE(BigInt(value))));
      default:
        return type satisfies never;
    }
  }
}
