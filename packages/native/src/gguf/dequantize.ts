import assert from 'node:assert';
import { endianness } from 'node:os';
import { koffi } from '../binding/koffi.ts';
import { NativeError } from '../binding/errors.ts';
import { library } from '../binding/library.ts';
import { structTypes } from '../binding/structs.ts';
import type { TensorType } from './tensor-types.ts';

/**
 * Expands stored tensor values to f32.
 *
 * @param bytes whole blocks of `type`, little-endian
 * @param out as many values as the blocks hold
 * @throws {NativeError} `native.gguf_malformed` for a type that ggml itself cannot expand (q8_1, q8_K:
 * intermediate types)
 */
export function dequantize(type: TensorType, bytes: Uint8Array, out: Float32Array): void {
  assert(endianness() === 'LE', 'GGUF is read on little-endian processors only');
  assert((bytes.length / type.blockBytes) * type.blockLength === out.length, 'blocks and values must correspond');
  switch (type.name) {
    case 'f32':
      new Uint8Array(out.buffer, out.byteOffset, out.byteLength).set(bytes);
      return;
    case 'f16':
      return halfToFloat(elements(bytes, Uint16Array), out);
    case 'bf16':
      return brainToFloat(elements(bytes, Uint16Array), out);
    case 'i8':
      return out.set(elements(bytes, Int8Array));
    case 'i16':
      return out.set(elements(bytes, Int16Array));
    case 'i32':
      return out.set(elements(bytes, Int32Array));
    case 'f64':
      return out.set(elements(bytes, Float64Array));
    case 'i64':
      elements(bytes, BigInt64Array).forEach((value, i) => (out[i] = Number(value)));
      return;
    default:
      return blocksToFloat(type, bytes, out);
  }
}

interface ElementArray<T> {
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): T;
  readonly BYTES_PER_ELEMENT: number;
}

/** Copies the bytes only if they are not aligned. */
function elements<T>(bytes: Uint8Array, array: ElementArray<T>): T {
  const aligned = bytes.byteOffset % array.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice();
  return new array(aligned.buffer, aligned.byteOffset, bytes.length / array.BYTES_PER_ELEMENT);
}

let halves: Float32Array | undefined;

function halfToFloat(values: Uint16Array, out: Float32Array): void {
  // All 65,536 halves: a lookup is several times faster than decoding each.
  const table = (halves ??= Float32Array.from({ length: 65_536 }, (_, bits) => halfValue(bits)));
  for (let i = 0; i < values.length; i++) out[i] = table[values[i]!]!;
}

function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function brainToFloat(values: Uint16Array, out: Float32Array): void {
  const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < values.length; i++) bits[i] = values[i]! << 16;
}

function blocksToFloat(type: TensorType, bytes: Uint8Array, out: Float32Array): void {
  koffi().call(toFloatOf(type), structTypes().TO_FLOAT, bytes, out, out.length);
}

type ToFloat = NonNullable<ReturnType<ReturnType<typeof library>['ggml']['typeTraits']>['to_float']>;

/** Functions by the type's number: rows of an embedding are expanded one by one. */
const toFloats = new Map<number, ToFloat>();

function toFloatOf(type: TensorType): ToFloat {
  const known = toFloats.get(type.id);
  if (known !== undefined) return known;
  const { to_float: toFloat, type_name: name } = library().ggml.typeTraits(type.id);
  assert(name === type.name, `ggml calls type ${type.id} ${name}, not ${type.name}`);
  if (toFloat === null)
    throw new NativeError('native.gguf_malformed', `tensors of type ${name} hold no readable values`);
  toFloats.set(type.id, toFloat);
  return toFloat;
}
