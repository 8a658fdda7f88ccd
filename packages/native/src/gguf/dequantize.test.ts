import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NativeError } from '../binding/errors.ts';
import { dequantize } from './dequantize.ts';
import { TENSOR_TYPES } from './tensor-types.ts';
import type { TensorType } from './tensor-types.ts';

function typeNamed(name: string): TensorType {
  const type = [...TENSOR_TYPES.values()].find((candidate) => candidate.name === name);
  if (type === undefined) throw new Error(`no type ${name}`);
  return type;
}

function expand(name: string, bytes: Uint8Array): Float32Array {
  const type = typeNamed(name);
  const out = new Float32Array((bytes.length / type.blockBytes) * type.blockLength);
  dequantize(type, bytes, out);
  return out;
}

test('every half equals the value from DataView', () => {
  const bytes = new Uint8Array(65_536 * 2);
  const view = new DataView(bytes.buffer) as DataView & { getFloat16(offset: number, littleEndian: boolean): number };
  for (let bits = 0; bits < 65_536; bits++) view.setUint16(bits * 2, bits, true);
  const expected = Float32Array.from({ length: 65_536 }, (_, bits) => view.getFloat16(bits * 2, true));
  expect(expand('f16', bytes)).toEqual(expected);
});

test('bf16 is an f32 without its lower half', () => {
  const values = Float32Array.of(1, -0.5, 3.140625, -Infinity, 2 ** -126, 0);
  const bits = new Uint32Array(values.buffer);
  expect(expand('bf16', new Uint8Array(Uint16Array.from(bits, (word) => word >>> 16).buffer))).toEqual(values);
});

test('plain numbers of any alignment', () => {
  const shifted = (array: { buffer: ArrayBufferLike; byteLength: number }) => {
    const bytes = new Uint8Array(array.byteLength + 1);
    bytes.set(new Uint8Array(array.buffer), 1);
    return bytes.subarray(1);
  };
  expect(expand('f32', shifted(Float32Array.of(1.5, -2)))).toEqual(Float32Array.of(1.5, -2));
  expect(expand('f64', shifted(Float64Array.of(1.5, -2)))).toEqual(Float32Array.of(1.5, -2));
  expect(expand('i8', shifted(Int8Array.of(1, -2)))).toEqual(Float32Array.of(1, -2));
  expect(expand('i16', shifted(Int16Array.of(1, -2)))).toEqual(Float32Array.of(1, -2));
  expect(expand('i32', shifted(Int32Array.of(1, -2)))).toEqual(Float32Array.of(1, -2));
  expect(expand('i64', shifted(BigInt64Array.of(1n, -2n)))).toEqual(Float32Array.of(1, -2));
});

// Reference decoders of ggml's blocks, from the layout in ggml-common.h: [f16 scale][f16 minimum] and nibbles or
// bytes.
const TWINS: Readonly<Record<string, (block: DataView, half: (offset: number) => number, i: number) => number>> = {
  q4_0: (block, half, i) => half(0) * (nibble(block, 2, i) - 8),
  q4_1: (block, half, i) => half(0) * nibble(block, 4, i) + half(2),
  q8_0: (block, half, i) => half(0) * block.getInt8(2 + i),
};

function nibble(block: DataView, start: number, i: number): number {
  return i < 16 ? block.getUint8(start + i) & 15 : block.getUint8(start + i - 16) >> 4;
}

test.each(Object.keys(TWINS))('%s blocks expand as the plain twin does', (name) => {
  const type = typeNamed(name);
  const twin = TWINS[name]!;
  let largest = 0;
  fc.assert(
    fc.property(fc.uint8Array({ minLength: type.blockBytes * 3, maxLength: type.blockBytes * 3 }), (bytes) => {
      // Scales of moderate size: infinities would only compare NaN with NaN.
      for (let block = 0; block < 3; block++) for (const at of [1, 3]) bytes[block * type.blockBytes + at]! &= 0xbf;
      const actual = expand(name, bytes);
      for (let i = 0; i < actual.length; i++) {
        const block = new DataView(bytes.buffer, Math.floor(i / 32) * type.blockBytes, type.blockBytes);
        const half = (offset: number) => expand('f16', new Uint8Array(bytes.buffer, block.byteOffset + offset, 2))[0]!;
        const expected = twin(block, half, i % 32);
        largest = Math.max(largest, Math.abs(actual[i]! - expected) / Math.max(1e-3, Math.abs(expected)));
      }
    }),
    { numRuns: 30 },
  );
  console.log(`${name}: largest relative difference ${largest}`);
  expect(largest).toBeLessThan(1e-5); // one f32 rounding; q4_1's sum may cancel
});

test('any bytes expand for every type that ggml reads, and the others report that they hold no values', () => {
  const unreadable: string[] = [];
  for (const type of TENSOR_TYPES.values()) {
    const bytes = Uint8Array.from({ length: type.blockBytes * 8 }, (_, i) => (i * 151 + 37) & 255);
    try {
      expand(type.name, bytes);
    } catch (error) {
      if (!(error instanceof NativeError)) throw error;
      unreadable.push(type.name);
    }
  }
  expect(unreadable).toEqual(['q8_1', 'q8_K']);
});
