import assert from 'node:assert';
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
  /** Type and value as returned by `GgufFile.rawMetadata`, copied unchanged. */
  | { readonly raw: Uint8Array }
  | {
      readonly array: {
        readonly type: Exclude<ValueType, 'array'>;
        readonly values: readonly (string | number | bigint | boolean)[];
      };
    };

const MAGIC = 'GGUF';

export class HeaderWriter {
  readonly #parts: Uint8Array[] = [];

  /** All before the first tensor's entry. @param metadata in the order of its keys */
  start(version: number, numTensors: number, metadata: Readonly<Record<string, GgufWritableValue>>): void {
    this.raw(Buffer.from(MAGIC));
    this.value('u32', version);
    this.value('u64', numTensors);
    this.value('u64', Object.keys(metadata).length);
    for (const [key, value] of Object.entries(metadata)) {
      this.value('string', key);
      this.metadata(value);
    }
  }

  raw(bytes: Uint8Array): void {
    this.#parts.push(bytes);
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  metadata(value: GgufWritableValue): void {
    if (typeof value === 'string') return this.#typed('string', value);
    if (typeof value === 'number') return this.#typed('f32', value);
    if (typeof value === 'boolean') return this.#typed('bool', value);
    if ('raw' in value) return this.raw(value.raw);
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

  /** Numbers out of the type's range throw RangeError. */
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
