import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NativeError } from '../binding/errors.ts';
import { library } from '../binding/library.ts';
import { GgufFile } from './gguf-file.ts';
import { GgufWriter } from './gguf-writer.ts';
import { TENSOR_TYPES } from './tensor-types.ts';
import { writeGguf } from './write-gguf.ts';

const folder = mkdtempSync(join(tmpdir(), 'gguf-'));
const METADATA = {
  'general.architecture': 'llama',
  'adapter.lora.alpha': 16,
  'a.flag': true,
  'a.u8': { u8: 255 },
  'a.i8': { i8: -128 },
  'a.u16': { u16: 65_535 },
  'a.i16': { i16: -32_768 },
  'a.u32': { u32: 4_294_967_295 },
  'a.i32': { i32: -2_147_483_648 },
  'a.f64': { f64: Math.PI },
  'a.u64': { u64: 2n ** 64n - 1n },
  'a.i64': { i64: -(2n ** 63n) },
  'a.texts': { array: { type: 'string', values: ['', 'Ġworld', '🙂'] } },
  'a.numbers': { array: { type: 'i32', values: [1, -2, 3] } },
} as const;
const TENSORS = [
  { name: 'w', dims: [3, 2], data: Float32Array.of(1, -2, 3.5, Infinity, 5e-40, -0) },
  { name: 'scalar', dims: [1], data: Float32Array.of(7) },
  { name: 'block', dims: [32, 1, 2], data: Float32Array.from({ length: 64 }, (_, i) => i / 3) },
];

function sample(): string {
  const path = join(folder, 'sample.gguf');
  if (!existsSync(path)) writeGguf(path, METADATA, TENSORS);
  return path;
}

test.each([32, 64])('a copy with other metadata has the same tensors, at an alignment of %d', (alignment) => {
  const path = join(folder, `aligned-${alignment}.gguf`);
  const source = readFileSync(sample());
  // The writer knows one alignment; for another, the data moves to its next multiple.
  if (alignment === 32) writeFileSync(path, source);
  else {
    const metadata = { ...METADATA, 'general.alignment': { u32: 32 } };
    writeGguf(path, metadata, TENSORS.slice(0, 1));
    const bytes = readFileSync(path);
    const at = bytes.indexOf('general.alignment') + 'general.alignment'.length + 4;
    bytes.writeUInt32LE(alignment, at);
    const start = bytes.length - 32;
    writeFileSync(path, Buffer.concat([bytes.subarray(0, start), Buffer.alloc(-start & 63), bytes.subarray(start)]));
  }
  using original = GgufFile.open(path);
  for (const text of ['', 'x'.repeat(100)]) {
    const copy = join(folder, 'copy.gguf');
    writeFileSync(
      copy,
      Buffer.concat([...original.contentWith({ 'a.flag': false, 'a.new': text })].map((piece) => Buffer.from(piece))),
    );
    using file = GgufFile.open(copy);
    expect(new Map(file.metadata)).toEqual(new Map(original.metadata).set('a.flag', false).set('a.new', text));
    expect(file.tensors.size).toBe(original.tensors.size);
    for (const name of original.tensors.keys()) expect(file.readRaw(name)).toEqual(original.readRaw(name));
  }
});

test('GgufFile reads a file of writeGguf unchanged', () => {
  using file = GgufFile.open(sample());
  expect(Object.fromEntries(file.metadata)).toEqual({
    'general.architecture': 'llama',
    'adapter.lora.alpha': 16,
    'a.flag': true,
    'a.u8': 255,
    'a.i8': -128,
    'a.u16': 65_535,
    'a.i16': -32_768,
    'a.u32': 4_294_967_295,
    'a.i32': -2_147_483_648,
    'a.f64': Math.PI,
    'a.u64': 2n ** 64n - 1n,
    'a.i64': -(2n ** 63n),
    'a.texts': ['', 'Ġworld', '🙂'],
    'a.numbers': [1, -2, 3],
  });
  for (const { name, dims, data } of TENSORS) {
    expect(file.tensors.get(name)).toMatchObject({ name, dims, type: 'f32', sizeBytes: data.byteLength });
    expect(file.readF32(name)).toEqual(data);
    const into = new Float32Array(data.length).fill(NaN);
    expect(file.readF32(name, into)).toBe(into);
    expect(into).toEqual(data);
    expect(() => file.readF32(name, new Float32Array(data.length + 1))).toThrow(
      `values 0 to ${data.length + 1} of ${data.length}`,
    );
  }
  expect([...file.tensors.values()].every((tensor) => tensor.offset % 32 === 0)).toBe(true);
});

test('a copy with raw metadata keeps every value with its type, and rounds to halves on request', () => {
  using file = GgufFile.open(sample());
  const path = join(folder, 'halves.gguf');
  const tensors = TENSORS.map(({ name, dims }) => ({ name, dims, type: name === 'scalar' ? 'f32' : 'f16' }) as const);
  using writer = new GgufWriter(path, { ...file.rawMetadata(), 'a.flag': false }, tensors);
  for (const { data } of TENSORS) writer.add(data);
  writer.finish();
  using copy = GgufFile.open(path);
  expect([...copy.metadata]).toEqual([...file.metadata].map(([key, value]) => [key, key === 'a.flag' ? false : value]));
  // The raw bytes include the types: u8 255 and i64 -2^63 would not survive as other numbers.
  expect(copy.rawMetadata()).toEqual({ ...file.rawMetadata(), 'a.flag': { raw: Uint8Array.of(7, 0, 0, 0, 0) } });
  for (const { name, data } of TENSORS) {
    expect(copy.tensors.get(name)!.type).toBe(name === 'scalar' ? 'f32' : 'f16');
    expect(copy.readF32(name)).toEqual(Float32Array.from(data, name === 'scalar' ? Number : Math.f16round));
  }
});

test('a file that is short of a tensor cannot be finished, nor take one more', () => {
  using writer = new GgufWriter(join(folder, 'short.gguf'), {}, [{ name: 'w', dims: [2], type: 'f16' }]);
  expect(() => writer.finish()).toThrow('0 of 1 tensors are written');
  expect(() => writer.add(new Float32Array(3))).toThrow('tensor w of [2] has 3 values');
  writer.add(new Float32Array(2));
  expect(() => writer.add(new Float32Array(2))).toThrow('all 1 tensors are written');
});

test('any metadata and tensors survive the round trip', () => {
  const value = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.boolean(),
    fc.float({ noNaN: true }),
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((u64) => ({ u64 })),
  );
  const path = join(folder, 'any.gguf');
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), value)),
      fc.uniqueArray(fc.string({ unit: 'grapheme' }), { maxLength: 4 }),
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 }),
      (entries, names, dims) => {
        const metadata = Object.fromEntries(
          entries.filter(([key]) => key !== '__proto__' && key !== 'general.alignment'),
        );
        const length = dims.reduce((product, dim) => product * dim, 1);
        const tensors = names.map((name, i) => ({
          name,
          dims,
          data: Float32Array.from({ length }, (_, j) => i + j / 7),
        }));
        writeGguf(path, metadata, tensors);
        using file = GgufFile.open(path);
        expect(file.metadata.size).toBe(Object.keys(metadata).length);
        for (const [key, written] of Object.entries(metadata)) {
          expect(file.metadata.get(key)).toEqual(typeof written === 'object' ? written.u64 : written);
        }
        for (const { name, data } of tensors) expect(file.readF32(name)).toEqual(data);
      },
    ),
    { numRuns: 60 },
  );
});

test('a failed write leaves the old file and no temporary one', () => {
  const path = join(folder, 'kept.gguf');
  writeGguf(path, { a: 'first' }, []);
  const before = readdirSync(folder).length;
  expect(() => writeGguf(path, {}, [{ name: 'w', dims: [2], data: new Float32Array(3) }])).toThrow(/3 values/);
  expect(() => writeGguf(path, { 'a.u8': { u8: 256 } }, [])).toThrow(RangeError);
  expect(() => writeGguf(join(folder, 'absent', 'file.gguf'), {}, [])).toThrow(/ENOENT/);
  expect(readdirSync(folder).length).toBe(before);
  using file = GgufFile.open(path);
  expect(file.metadata.get('a')).toBe('first');
});

/** Error of opening these bytes; errors other than NativeError fail the test. */
function openBytes(bytes: Uint8Array): NativeError | null {
  const path = join(folder, 'bytes.gguf');
  writeFileSync(path, bytes);
  try {
    using file = GgufFile.open(path);
    for (const { name } of file.tensors.values()) file.readF32(name);
    return null;
  } catch (error) {
    if (error instanceof NativeError && error.code === 'native.gguf_malformed') return error;
    throw error;
  }
}

/** Magic, version 3, then the given numbers: bigint as 64 bits, number as 32, string as its bytes. */
function header(...values: (bigint | number | string)[]): Buffer {
  return Buffer.concat(
    ['GGUF', 3, ...values].map((value) => {
      if (typeof value === 'string') return Buffer.from(value);
      const bytes = Buffer.alloc(typeof value === 'bigint' ? 8 : 4);
      if (typeof value === 'bigint') bytes.writeBigUInt64LE(value);
      else bytes.writeUInt32LE(value);
      return bytes;
    }),
  );
}

const TYPE_STRING = 8;
const TYPE_ARRAY = 9;
const HUGE = 2n ** 63n;

test.each<[what: string, bytes: Buffer, message: RegExp]>([
  ['an empty file', Buffer.alloc(0), /the file ends.* at offset 0/],
  ['another format', Buffer.from('PK\x03\x04 and more'), /no "GGUF" magic/],
  ['an unknown version', Buffer.concat([Buffer.from('GGUF'), Buffer.from([9, 0, 0, 0])]), /version 9/],
  ['a huge number of tensors', header(HUGE, 0n), /9223372036854775808 tensors announced.* at offset 8/],
  ['a huge number of entries', header(0n, 2n ** 40n), /metadata entries announced.* at offset 16/],
  ['a huge key', header(0n, 1n, HUGE, 'abcdefghijklm'), /bytes of text announced/],
  ['a huge text', header(0n, 1n, 1n, 'k', TYPE_STRING, 2n ** 32n, 'text'), /4294967296 bytes of text/],
  ['a huge array', header(0n, 1n, 1n, 'k', TYPE_ARRAY, 0, 2n ** 50n), /values of type u8/],
  [
    'arrays in arrays without end',
    header(0n, 1n, 1n, 'k', TYPE_ARRAY, ...Array.from({ length: 5 }, () => [TYPE_ARRAY, 1n]).flat(), 0, 0n, 0n),
    /arrays nested more than 4 deep/,
  ],
  ['an unknown value type', header(0n, 1n, 1n, 'k', 13, 0n), /unknown value type 13 at offset 33/],
  ['a key given twice', header(0n, 2n, 1n, 'k', 4, 1, 1n, 'k', 4, 2), /"k" a second time/],
  [
    'a long key given twice',
    header(0n, 2n, ...[0, 0].flatMap(() => [100_000n, 'k'.repeat(100_000), 4, 1])),
    /^.{0,200}key "k{199}… a second time at offset \d+$/,
  ],
  ['a bad alignment', header(0n, 1n, 17n, 'general.alignment', 4, 3), /power of two, it is 3/],
  ['five dimensions', header(1n, 0n, 1n, 't', 5, 1n, 1n, 1n, 1n, 1n, 0, 0n), /5 dimensions/],
  ['dimensions whose product overflows', header(1n, 0n, 1n, 't', 2, 2n ** 33n, 2n ** 33n, 0, 0n), /a dimension of/],
  ['an empty dimension', header(1n, 0n, 1n, 't', 1, 0n, 0, 0n), /a dimension of 0/],
  ['an unknown tensor type', header(1n, 0n, 1n, 't', 1, 1n, 4, 0n), /unknown tensor type 4/],
  ['a row that is not a whole block', header(1n, 0n, 1n, 't', 1, 33n, 8, 0n), /rows of 33 in blocks of 32/],
  [
    'tensor data beyond the file',
    header(1n, 0n, 1n, 't', 1, 8n, 0, 0n),
    /tensor "t" of 32 bytes at 64 in a file of 57/,
  ],
  ['an offset beyond the file', header(1n, 0n, 1n, 't', 1, 8n, 0, 2n ** 62n), /beyond the end/],
  ['an unaligned offset', header(1n, 0n, 1n, 't', 1, 8n, 0, 4n), /not aligned to 32/],
])('%s is malformed, with the reason', (_, bytes, message) => {
  expect(openBytes(bytes)?.message).toMatch(message);
});

test('a file cut anywhere is malformed', () => {
  const whole = readFileSync(sample());
  // The last tensor ends the file; this sample needs no padding.
  for (let length = 0; length < whole.length; length += 7) {
    expect(openBytes(whole.subarray(0, length)), `${length} of ${whole.length} bytes`).toBeInstanceOf(NativeError);
  }
  expect(openBytes(whole)).toBeNull();
});

test('changed bytes give a file that reads or a malformed one, never another error', () => {
  const whole = readFileSync(sample());
  let numMalformed = 0;
  const byte = fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(0, 1, 127, 128, 255));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(whole.length - 1), byte), { minLength: 1, maxLength: 8 }),
      fc.option(fc.nat(whole.length), { freq: 2 }),
      (changes, cutAt) => {
        const bytes = Buffer.from(whole);
        for (const [at, value] of changes) bytes[at] = value;
        if (openBytes(cutAt === null ? bytes : bytes.subarray(0, cutAt)) !== null) numMalformed++;
      },
    ),
    { numRuns: 1000 },
  );
  console.log(`${numMalformed} of 1000 changed files were malformed`);
  expect(numMalformed).toBeGreaterThan(100);
});

test('a missing file and a folder are malformed, not a crash', () => {
  expect(() => GgufFile.open(join(folder, 'absent.gguf'))).toThrow(NativeError);
  expect(() => GgufFile.open(folder)).toThrow(NativeError);
});

test('after close reading is an assertion, closing again nothing', () => {
  const file = GgufFile.open(sample());
  file.close();
  file.close();
  expect(() => file.readF32('w')).toThrow(/closed/);
});

test('the table of tensor types is the library’s own', () => {
  for (const type of TENSOR_TYPES.values()) {
    const traits = library().ggml.typeTraits(type.id);
    expect([traits.type_name, traits.blck_size, traits.type_size]).toEqual([
      type.name,
      type.blockLength,
      type.blockBytes,
    ]);
  }
});
