/** Products by packed weights against ONNX Runtime with the same weights as ggml expands them: equal to the bit. */
import { kernelInstructionSets, readValues } from '@trainyard/native';
import { input, matmul } from '@trainyard/transformer';
import { randomSource } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { ConstantGraph } from '../graphs/constant-graph.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { sharedMemory } from '../wasm/web-assembly.ts';
import { formatOf, packedBytes, packRows, packRowsInJavaScript } from './pack-rows.ts';
import { PackedProducts } from './packed-products.ts';
import { productInstructions } from './same-product-bits.ts';
import { GROUP_ROWS, WASM_FORMATS } from './weight-formats.ts';

const teams: ThreadTeam[] = [];
afterAll(() => {
  for (const team of teams) team.close();
});

/** Types of ggml: number, values and bytes of a block, and where it has 16-bit floats. */
const TYPES = {
  q4_0: { typeId: 2, blockLength: 32, blockBytes: 18, halves: [0] },
  q4_1: { typeId: 3, blockLength: 32, blockBytes: 20, halves: [0, 2] },
  q5_0: { typeId: 6, blockLength: 32, blockBytes: 22, halves: [0] },
  q5_1: { typeId: 7, blockLength: 32, blockBytes: 24, halves: [0, 2] },
  q8_0: { typeId: 8, blockLength: 32, blockBytes: 34, halves: [0] },
  q4_K: { typeId: 12, blockLength: 256, blockBytes: 144, halves: [0, 2] },
  q5_K: { typeId: 13, blockLength: 256, blockBytes: 176, halves: [0, 2] },
  q6_K: { typeId: 14, blockLength: 256, blockBytes: 210, halves: [208] },
  bf16: { typeId: 30, blockLength: 1, blockBytes: 2, halves: [] },
  f16: { typeId: 1, blockLength: 1, blockBytes: 2, halves: [] },
  f32: { typeId: 0, blockLength: 1, blockBytes: 4, halves: [] },
} as const;
type TypeName = keyof typeof TYPES;

/** Random values of a type, with scales of different magnitudes, some 0. */
function randomValues(name: TypeName, numValues: number, random: () => number): Uint8Array {
  if (name === 'f32') return new Uint8Array(Float32Array.from({ length: numValues }, random).buffer);
  if (name === 'f16') return new Uint8Array(Float16Array.from({ length: numValues }, random).buffer);
  if (name === 'bf16') {
    const bits = new Uint32Array(Float32Array.from({ length: numValues }, random).buffer);
    return new Uint8Array(Uint16Array.from(bits, (value) => value >>> 16).buffer);
  }
  const { blockBytes, blockLength, halves } = TYPES[name];
  const numBlocks = numValues / blockLength;
  const bytes = Uint8Array.from({ length: numBlocks * blockBytes }, () => Math.floor(128 * (1 + random())));
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < numBlocks; block++)
    for (const at of halves)
      view.setFloat16(block * blockBytes + at, block % 17 === 0 ? 0 : random() * 10 ** (-3 * (1 + random())), true);
  return bytes;
}

const ROWS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31, 64, 150];
const MAX_ROWS = 150;

test('the kernels for the widest instructions of this machine are used, if it has any', () => {
  expect(productInstructions()).toBe(kernelInstructionSets()[0] ?? null);
});

test.each(Object.keys(TYPES) as TypeName[])('%s: sums are those of float32 weights', (type) => {
  const { typeId, blockLength, blockBytes } = TYPES[type];
  const random = randomSource(type.length + blockBytes);
  const format = formatOf(type)!;
  const sets = [...((WASM_FORMATS as readonly string[]).includes(format) ? [null] : []), ...kernelInstructionSets()];
  for (const [out, columns] of [
    [8, 32],
    [64, 256],
    [96, 288],
    [24, 1536],
    [40, 576],
    [136, 512],
    [1, 256],
    [75, 512],
  ] as const) {
    if (columns % blockLength !== 0) continue;
    const raw = randomValues(type, out * columns, random);
    const weights = new Float32Array(out * columns);
    readValues({ typeId, numValues: weights.length, bytes: raw }, 0, weights);
    const order = Array.from({ length: out }, (_, place) => (place * 5 + 3) % out);
    const permuted = Float32Array.from({ length: weights.length }, (_, i) => {
      const place = Math.floor(i / columns);
      return weights[order[place]! * columns + (i % columns)]!;
    });
    const size = packedBytes(format, out, columns);
    const memory = sharedMemory(size + 4 * MAX_ROWS * (out + columns));
    const ordered = { numColumns: columns, order: Uint32Array.from(order) };
    // WebAssembly reads weights of its memory only, kernels in C any.
    const inside = new Uint8Array(memory.buffer, 0, size);
    const outside = new Uint8Array(new SharedArrayBuffer(size));
    packRowsInJavaScript(type, raw, ordered, inside);
    packRows(type, raw, ordered, outside);
    expect(outside, 'packed in C').toEqual(inside.slice());
    const product = matmul(input('x', ['T', columns]), input('w', [out, columns]), { transposeB: true });
    const graph = new ConstantGraph({ y: product }, { w: { data: permuted, dims: [out, columns] } }, 1);
    for (const numThreads of [1, 2]) {
      const team = new ThreadTeam(numThreads);
      teams.push(team);
      const all = sets
        .filter((set) => set !== null || out % GROUP_ROWS === 0)
        .map((instructions) => ({
          name: instructions ?? 'wasm',
          bytes: instructions === null ? inside : outside,
          products: new PackedProducts(memory, team, instructions),
        }));
      for (const numRows of ROWS) {
        const x = new Float32Array(memory.buffer, size, numRows * columns);
        const y = new Float32Array(memory.buffer, size + 4 * MAX_ROWS * columns, numRows * out);
        for (let i = 0; i < x.length; i++) x[i] = random();
        const expected = new Float32Array(numRows * out);
        graph.run(
          { x: { data: x.slice(), dims: [numRows, columns] } },
          { y: { data: expected, dims: [numRows, out] } },
        );
        for (const { name, bytes, products } of all) {
          const matrix = { out, in: columns, parts: [{ format, bytes, firstRow: 0, numRows: out }] };
          y.fill(NaN);
          products.multiply(x, matrix, { sum: null, y });
          expect(y, `${name}: ${numRows} × ${columns} · ${out}, ${numThreads} threads`).toEqual(expected);
        }
      }
    }
    graph.close();
  }
});
