/**
 * Products by quantised weights against ONNX Runtime with the same weights in float32: equal to the bit, or
 * unsupported on this machine.
 */
import { kernelInstructionSets } from '@trainyard/native';
import { input, matmul } from '@trainyard/transformer';
import { randomSource } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { ConstantGraph } from '../graphs/constant-graph.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { sharedMemory } from '../wasm/web-assembly.ts';
import { formatOf, layOut, matrixBytes } from './quantised-layout.ts';
import { QuantisedProducts } from './quantised-products.ts';
import { productInstructions } from './same-product-bits.ts';

const teams: ThreadTeam[] = [];
afterAll(() => {
  for (const team of teams) team.close();
});

const TYPES = { q4_0: 18, q4_1: 20, q8_0: 34 } as const;

/** Random blocks of a type, with scales of different magnitudes, some 0. */
function randomBlocks(type: keyof typeof TYPES, numBlocks: number, random: () => number): Uint8Array {
  const bytes = Uint8Array.from({ length: numBlocks * TYPES[type] }, () => Math.floor(128 * (1 + random())));
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < numBlocks; block++) {
    const at = block * TYPES[type];
    view.setFloat16(at, block % 17 === 0 ? 0 : random() * 10 ** (-3 * (1 + random())), true);
    if (type === 'q4_1') view.setFloat16(at + 2, random() / 8, true);
  }
  return bytes;
}

/**
 * Expands a block by ggml's format: scale and offset, then the values; of four bits the first sixteen in the low
 * halves of bytes.
 */
function expanded(type: keyof typeof TYPES, raw: Uint8Array): Float32Array {
  const view = new DataView(raw.buffer);
  const values: number[] = [];
  for (let at = 0; at < raw.length; at += TYPES[type]) {
    const scale = view.getFloat16(at, true);
    for (let i = 0; i < 32; i++) {
      if (type === 'q8_0') values.push(scale * view.getInt8(at + 2 + i));
      else {
        const byte = raw[at + TYPES[type] - 16 + (i % 16)]!;
        const four = i < 16 ? byte % 16 : byte >> 4;
        values.push(type === 'q4_1' ? scale * four + view.getFloat16(at + 2, true) : scale * (four - 8));
      }
    }
  }
  return Float32Array.from(values);
}

const ROWS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31, 64];
const MAX_ROWS = 64;

test('the kernels for the widest instructions of this machine are used, if it has any', () => {
  expect(productInstructions()).toBe(kernelInstructionSets()[0] ?? null);
});

test.each(Object.keys(TYPES) as (keyof typeof TYPES)[])('%s: sums are those of float32 weights', (type) => {
  const random = randomSource(type.length + TYPES[type]);
  for (const [out, columns] of [
    [8, 32],
    [64, 256],
    [96, 288],
    [24, 1536],
    [40, 576],
  ] as const) {
    const raw = randomBlocks(type, (out * columns) / 32, random);
    const order = Array.from({ length: out }, (_, place) => (place * 5 + 3) % out);
    const weights = expanded(type, raw);
    const permuted = Float32Array.from({ length: weights.length }, (_, i) => {
      const place = Math.floor(i / columns);
      return weights[order[place]! * columns + (i % columns)]!;
    });
    const format = formatOf(type)!;
    const size = matrixBytes(format, out, columns);
    const memory = sharedMemory(size + 4 * MAX_ROWS * (out + columns));
    layOut(
      type,
      raw,
      { numRows: out, numColumns: columns, rowAt: (place) => order[place]! },
      new Uint8Array(memory.buffer, 0, size),
    );
    const product = matmul(input('x', ['T', columns]), input('w', [out, columns]), { transposeB: true });
    const graph = new ConstantGraph({ y: product }, { w: { data: permuted, dims: [out, columns] } }, 1);
    for (const numThreads of [1, 2]) {
      const team = new ThreadTeam(numThreads);
      teams.push(team);
      const all = [null, ...kernelInstructionSets()].map((instructions) => {
        return { name: instructions ?? 'wasm', products: new QuantisedProducts(memory, team, instructions) };
      });
      for (const numRows of ROWS) {
        const x = new Float32Array(memory.buffer, size, numRows * columns);
        const y = new Float32Array(memory.buffer, size + 4 * MAX_ROWS * columns, numRows * out);
        for (let i = 0; i < x.length; i++) x[i] = random();
        const matrix = { out, in: columns, parts: [{ format, address: 0, firstRow: 0, numRows: out }] };
        const expected = new Float32Array(numRows * out);
        graph.run(
          { x: { data: x.slice(), dims: [numRows, columns] } },
          { y: { data: expected, dims: [numRows, out] } },
        );
        for (const { name, products } of all) {
          y.fill(0);
          products.addProduct(x, matrix, y);
          expect(y, `${name}: ${numRows} × ${columns} · ${out}, ${numThreads} threads`).toEqual(expected);
        }
      }
    }
    graph.close();
  }
});
