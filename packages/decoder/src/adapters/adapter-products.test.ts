import { LINEAR_NAMES, linearDims } from '@trainyard/transformer';
import type { Architecture, LinearAdapter, LinearName } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURE } from '@trainyard/transformer/testing';
import { describe, expect, test } from 'vitest';
import { DecoderMemory } from '../memory/decoder-memory.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { AdapterProducts } from './adapter-products.ts';
import { DecoderAdapter } from './decoder-adapter.ts';

const random = randomSource(5);
const values = (length: number): Float32Array => Float32Array.from({ length }, () => random());

const adapterOf = (architecture: Architecture, rank: number) => {
  const layer = Object.fromEntries(
    LINEAR_NAMES.map((linear) => {
      const dims = linearDims(architecture, linear);
      return [linear, { rank, a: values(rank * dims.in), b: values(dims.out * rank) }];
    }),
  ) as Record<LinearName, LinearAdapter>;
  return { layer, adapter: new DecoderAdapter([layer], architecture) };
};

/** Computes onto + b · (a · x) in double precision. */
function plain({ rank, a, b }: LinearAdapter, x: Float32Array, onto: number, column: number): number {
  let sum = onto;
  for (let r = 0; r < rank; r++) {
    let low = 0;
    for (const [i, value] of x.entries()) low += a[r * x.length + i]! * value;
    sum += b[column * rank + r]! * low;
  }
  return sum;
}

// Columns come in fours with one to three left; a width of 3 has no whole block.
describe.each([3, 32, 33, 34, 35])('rows of %i', (width) => {
  const architecture: Architecture = { ...TINY_ARCHITECTURE, numLayers: 1, hiddenSize: width, feedForwardSize: width };

  test.each([1, 4, 9])('of an adapter of rank %i are those of plain loops, and only its rows change', (rank) => {
    const memory = new DecoderMemory(4e6);
    const take = () => memory.take(7 * width);
    const [x, onto, into, other] = [take(), take(), take(), take()];
    const products = new AdapterProducts(architecture, memory, { maxRows: 7, maxBytes: 1e6 }, new ThreadTeam(1));
    const [one, two] = [adapterOf(architecture, rank), adapterOf(architecture, rank + 1)];
    const rows = [one, two, null, one, one, one, one];
    x.set(values(x.length));
    onto.set(values(onto.length));
    let largest = 0;
    const differs = (found: Float32Array, linear: LinearName, base: Float32Array | null) => {
      for (const [row, of] of rows.entries()) {
        const input = x.subarray(row * width, (row + 1) * width);
        for (let column = 0; column < width; column++) {
          const at = row * width + column;
          const begun = base?.[at] ?? 0;
          const expected = of === null ? begun : plain(of.layer[linear], input, begun, column);
          largest = Math.max(largest, Math.abs(found[at]! - expected));
        }
      }
    };
    products.begin(rows.map((row) => row?.adapter ?? null));
    products.compute('down', 0, { x, into: { down: into }, onto });
    differs(into, 'down', onto);
    products.compute('feedForward', 0, { x, into: { gate: into, up: other }, onto: null });
    differs(into, 'gate', null);
    differs(other, 'up', null);
    console.log(`rows of ${width}, rank ${rank}: largest difference from plain loops ${largest.toExponential(1)}`);
    // Sums of 35 and of 10 products below 1, each rounded to float32.
    expect(largest).toBeLessThan(2e-5);
    const together = into.slice();
    for (const [row, of] of rows.entries()) {
      if (of === null) continue;
      products.begin([of.adapter]);
      const single = into.subarray(0, width);
      products.compute('feedForward', 0, {
        x: x.subarray(row * width, (row + 1) * width),
        into: { gate: single, up: other.subarray(0, width) },
        onto: null,
      });
      expect(single).toEqual(together.subarray(row * width, (row + 1) * width));
    }
  });
});

test('a column has the same bits in a tile of four and after the last tile', () => {
  const [x, onto] = [values(3 * 16), values(3 * 36)];
  const factors = { a: values(5 * 16), b: values(36 * 5) };
  const columns = (width: number): Float32Array[] => {
    const architecture = { ...TINY_ARCHITECTURE, numLayers: 1, hiddenSize: width, feedForwardSize: 16 };
    const memory = new DecoderMemory(4e6);
    const own = { x: memory.take(3 * 16), onto: memory.take(3 * width), into: memory.take(3 * width) };
    own.x.set(x);
    for (let row = 0; row < 3; row++) own.onto.set(onto.subarray(row * 36, row * 36 + width), row * width);
    const products = new AdapterProducts(architecture, memory, { maxRows: 3, maxBytes: 1e6 }, new ThreadTeam(1));
    const down = { rank: 5, a: factors.a, b: factors.b.slice(0, width * 5) };
    const adapter = new DecoderAdapter([{ down }], architecture);
    products.begin([adapter, adapter, adapter]);
    products.compute('down', 0, { x: own.x, into: { down: own.into }, onto: own.onto });
    return [0, 1, 2].map((row) => own.into.slice(row * width, (row + 1) * width));
  };
  const whole = columns(36);
  for (const width of [33, 34, 35]) expect(columns(width)).toEqual(whole.map((row) => row.subarray(0, width)));
});
