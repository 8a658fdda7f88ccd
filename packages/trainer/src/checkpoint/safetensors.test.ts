import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileDigest } from '@trainyard/transformer';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { SafetensorsWriter } from './safetensors-writer.ts';

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'safetensors-'));
  path = join(directory, 'file.safetensors');
});
afterEach(() => rm(directory, { recursive: true }));

const TENSORS = [
  { name: 'b', dims: [2, 3], data: Float32Array.of(1, -2, 3.5, NaN, Infinity, 1e-40) },
  { name: 'a', dims: [0], data: new Float32Array(0) },
  { name: 'scalar', dims: [], data: Float32Array.of(7) },
];

/** @param header may be invalid */
function forge(
  header: string,
  data: Uint8Array = new Uint8Array(0),
  headerLength = BigInt(Buffer.byteLength(header)),
): void {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(headerLength);
  writeFileSync(path, Buffer.concat([length, Buffer.from(header), data]));
}

describe('safetensors', () => {
  it('come back bit for bit, in order, with their metadata', () => {
    const digest = writeSafetensors(path, TENSORS, { format: 'pt' });
    const file = readSafetensors(path);
    expect([...file.tensors.values()]).toEqual(TENSORS);
    expect(file.metadata).toEqual({ format: 'pt' });
    expect(fileDigest(path).sha256).toBe(digest);
    expect(readFileSync(path).readBigUInt64LE() % 8n).toBe(0n); // data aligned
  });

  it('give equal files for equal tensors', () => {
    const digest = writeSafetensors(path, TENSORS, {});
    expect(writeSafetensors(join(directory, 'other'), TENSORS, {})).toBe(digest);
  });

  it('of 16 bits are read as their values, in any order of the header', () => {
    // The same four numbers as IEEE halves and as upper halves of float32.
    const halves = Uint16Array.of(0x3c00, 0xc000, 0x3555, 0x7bff);
    const brains = Uint16Array.of(0x3f80, 0xc000, 0x3eab, 0x4780);
    const header = {
      brain: { dtype: 'BF16', shape: [2, 2], data_offsets: [8, 16] },
      half: { dtype: 'F16', shape: [4], data_offsets: [0, 8] },
    };
    forge(JSON.stringify(header), Buffer.concat([halves, brains].map((bits) => new Uint8Array(bits.buffer))));
    const { tensors } = readSafetensors(path);
    expect([...tensors.keys()]).toEqual(['half', 'brain']);
    expect([...tensors.get('half')!.data]).toEqual([1, -2, 0.333251953125, 65_504]);
    expect([...tensors.get('brain')!.data]).toEqual([1, -2, 0.333984375, 65_536]);
  });

  it('written in halves are rounded to the nearest', () => {
    const data = Float32Array.from({ length: 3_000_000 }, (_, i) => (i - 1_500_000) / 997);
    const shapes = [{ name: 'x', dims: [3, 1_000_000], dtype: 'F16' }] as const;
    const writer = new SafetensorsWriter(path, shapes, {});
    writer.add(data);
    const digest = writer.finish();
    const file = readSafetensors(path);
    expect(fileDigest(path).sha256).toBe(digest);
    expect(file.tensors.get('x')!.data).toEqual(data.map(Math.f16round));
  });

  const one = (entry: object): string =>
    JSON.stringify({ x: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...entry } });
  const eight = new Uint8Array(8);
  it.each<[string, () => void, RegExp]>([
    ['absent', () => {}, /ENOENT/],
    ['empty', () => writeFileSync(path, ''), /0 bytes are too few/],
    ['a header longer than the file', () => forge(one({}), eight, 10_000n), /header of 10000 bytes does not fit/],
    ['a header of 2^63 bytes', () => forge(one({}), eight, 2n ** 63n), /does not fit/],
    ['no JSON', () => forge('{"x": '), /not JSON/],
    [
      'a tensor described twice',
      () => forge(`{"x": ${one({}).slice(5, -1)}, "\\u0078" : ${one({}).slice(5, -1)}}`, eight),
      /tensor "x" is described twice/,
    ],
    ['a header that is no object', () => forge('[]'), /not an object/],
    ['metadata that are no strings', () => forge('{"__metadata__": {"a": 1}}'), /metadata are not strings/],
    ['another type', () => forge(one({ dtype: 'F64' }), eight), /dtype "F64"; readable are F32, F16, BF16/],
    ['a type that is no text', () => forge(one({ dtype: 4 }), eight), /tensor "x" is not described/],
    ['a type of another size', () => forge(one({ dtype: 'F16' }), eight), /of \[2\] has 8 bytes/],
    ['a negative offset', () => forge(one({ data_offsets: [-8, 0] }), eight), /tensor "x" is not described/],
    ['a gap', () => forge(one({ data_offsets: [4, 12] }), new Uint8Array(12)), /starts at 4, expected 0/],
    ['a shape that is not its size', () => forge(one({ shape: [3] }), eight), /of \[3\] has 8 bytes/],
    ['data cut off', () => forge(one({}), new Uint8Array(7)), /beyond the end/],
    ['data left over', () => forge(one({}), new Uint8Array(9)), /1 bytes belong to no tensor/],
    ['a shape of too many dimensions', () => forge(one({ shape: Array(65).fill(1) }), eight), /at most 64 dimensions/],
  ])('refuse %s', (_name, make, reason) => {
    make();
    expect(() => readSafetensors(path)).toThrow(expect.objectContaining({ code: 'trainer.checkpoint_unreadable' }));
    expect(() => readSafetensors(path)).toThrow(reason);
  });

  const long = 'x'.repeat(1_000_000);
  it.each<[string, object]>([
    ['a name', { [long]: {} }],
    ['a name in front of a gap', { [long]: { dtype: 'F32', shape: [1], data_offsets: [4, 8] } }],
    ['a name of another size', { [long]: { dtype: 'F32', shape: [3], data_offsets: [0, 8] } }],
    ['a name of data cut off', { [long]: { dtype: 'F32', shape: [4], data_offsets: [0, 16] } }],
    ['a type', { x: { dtype: long, shape: [2], data_offsets: [0, 8] } }],
    ['a shape', { x: { dtype: 'F32', shape: Array(1_000_000).fill(1), data_offsets: [0, 8] } }],
    ['dimensions', { x: { dtype: 'F32', shape: Array(64).fill(2 ** 53 - 1), data_offsets: [0, 8] } }],
  ])('are refused in a few words however long they are: %s', (_name, header) => {
    forge(JSON.stringify(header), eight);
    try {
      readSafetensors(path);
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code: 'trainer.checkpoint_unreadable' });
      expect((error as Error).message.length).toBeLessThan(2_000);
    }
  });
});
