import { AttentionKernels } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import { expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { EXPONENTIAL_CONSTANTS } from '../wasm/exponential.ts';
import { compileModule, instantiate, sharedMemory } from '../wasm/web-assembly.ts';
import { attentionModule, stepsOf } from './attention-code.ts';
import { kernelPlan, planAttention } from './attention-layout.ts';
import type { AttentionLayout } from './attention-layout.ts';
import { PAGE_TOKENS } from './page-format.ts';
import { TileAttention, type Tiles, maxTileRows } from './tile-attention.ts';

const MAX_ROWS = 12;
const MAX_KEYS = 560;
const MAX_PAGES = MAX_KEYS / PAGE_TOKENS;

/** One key head and its query heads, with scattered pages. */
class Bench {
  readonly headSize: number;
  readonly numHeads: number;
  readonly #memory = sharedMemory(24 << 20);
  readonly #layout: AttentionLayout;
  readonly #tiles: Tiles;
  readonly #pages: number;
  readonly #integers: Int32Array;

  /** @param sinks [heads]; null: none */
  constructor(
    headSize: number,
    numHeads: number,
    sinks: Float32Array | null,
    instructions: InstructionSet | null = null,
  ) {
    this.headSize = headSize;
    this.numHeads = numHeads;
    const sizes = { numHeads, numKvHeads: 1, headSize, maxRows: MAX_ROWS, maxPages: MAX_PAGES, numThreads: 1 };
    const { layout, end } = planAttention(sizes);
    this.#layout = layout;
    this.#pages = end;
    this.#integers = new Int32Array(this.#memory.buffer);
    this.floats(this.#layout.constants, EXPONENTIAL_CONSTANTS.length).set(EXPONENTIAL_CONSTANTS);
    this.floats(this.#layout.sinks, numHeads).set(sinks ?? new Float32Array(numHeads).fill(-Infinity));
    const steps = stepsOf(instantiate(compileModule(attentionModule(headSize)), this.#memory));
    this.#tiles =
      instructions === null
        ? new TileAttention(layout, steps, this.#memory, 0)
        : new AttentionKernels(this.#memory.buffer, kernelPlan(layout, 0), instructions);
  }

  floats(at: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, at, length);
  }

  /**
   * Outputs [rows, heads, D] of rows that see the first `numKeys` keys.
   *
   * @param keys [keys, D]
   * @param values the same
   * @param sharedPages by tile
   * @param firstRows by tile
   */
  attend(
    { queries, keys, values }: Record<'queries' | 'keys' | 'values', Float32Array>,
    numKeys: readonly number[],
    firstRows: readonly number[],
    sharedPages: readonly number[],
  ): Float32Array {
    const { headSize, numHeads } = this;
    const pageFloats = 2 * PAGE_TOKENS * headSize;
    const { q, o, tables, ...places } = this.#layout;
    // Slots without a key of these rows hold NaN, as if from another owner.
    this.floats(this.#pages, MAX_PAGES * pageFloats).fill(NaN);
    const table = this.#pages + 4 * MAX_PAGES * pageFloats;
    for (let page = 0; page < MAX_PAGES; page++) {
      const place = 4 * pageFloats * ((11 * page + 3) % MAX_PAGES);
      this.#integers[table / 4 + page] = place;
      for (let slot = 0; slot < PAGE_TOKENS; slot++) {
        const key = page * PAGE_TOKENS + slot;
        if (key >= Math.max(...numKeys)) break;
        const pageKeys = this.floats(this.#pages + place, pageFloats / 2);
        const pageValues = this.floats(this.#pages + place + 2 * pageFloats, pageFloats / 2);
        for (let d = 0; d < headSize; d++) {
          pageKeys[d * PAGE_TOKENS + slot] = keys[key * headSize + d]!;
          pageValues[slot * headSize + d] = values[key * headSize + d]!;
        }
      }
    }
    this.floats(q, queries.length).set(queries);
    this.#integers.set(
      numKeys.map(() => table),
      tables / 4,
    );
    this.#integers.set(numKeys, places.numKeys / 4);
    const base = this.#pages;
    for (const [tile, first] of firstRows.entries()) {
      const end = firstRows[tile + 1] ?? numKeys.length;
      this.#tiles.attend(first, end, sharedPages[tile]!, { kvHead: 0, keys: base, values: base + 2 * pageFloats });
    }
    return this.floats(o, numKeys.length * numHeads * headSize).slice();
  }
}

/** Computes softmax(q · kᵀ / √D) · v in double precision, with a sink in the sum of weights. */
function plainAttention(
  q: Float32Array,
  { keys: k, values: v }: Record<'keys' | 'values', Float32Array>,
  numKeys: number,
  sink: number,
): number[] {
  const headSize = q.length;
  const scores = Array.from({ length: numKeys }, (_, key) =>
    q.reduce((sum, value, d) => sum + value * k[key * headSize + d]!, 0),
  ).map((score) => score / Math.sqrt(headSize));
  const maximum = Math.max(sink, ...scores);
  const weights = scores.map((score) => Math.exp(score - maximum));
  const total = weights.reduce((a, b) => a + b, Math.exp(sink - maximum));
  return Array.from({ length: headSize }, (_, d) =>
    weights.reduce((sum, weight, key) => sum + (weight / total) * v[key * headSize + d]!, 0),
  );
}

const random = randomSource(11);
const randoms = (length: number, scale: number): Float32Array => Float32Array.from({ length }, () => scale * random());

/** Some below all scores, among them, and above them. */
const sinksOf = (numHeads: number): Float32Array => Float32Array.from({ length: numHeads }, (_, head) => 4 * head - 6);

test.each([
  [64, 3, false],
  [64, 1, false],
  [64, 2, false],
  [64, 7, false],
  [80, 4, false],
  [128, 5, false],
  [16, 6, false],
  [8, 12, false],
  [20, 3, false],
  [12, 29, false],
  [64, 8, true],
  [20, 3, true],
])(
  'heads of %i, %i of them with a key head: the same in tiles, alone, and in plain loops',
  (headSize, numHeads, isSunk) => {
    const sinks = isSunk ? sinksOf(numHeads) : null;
    const bench = new Bench(headSize, numHeads, sinks);
    const width = numHeads * headSize;
    const keys = randoms(MAX_KEYS * headSize, 1);
    const values = randoms(MAX_KEYS * headSize, 1);
    let largest = 0;
    const most = maxTileRows(numHeads, 1);
    for (const last of [1, 2, 15, 16, 17, 100, 257, 512, 553]) {
      // Tokens of a prompt, and one far away from the others.
      const numKeys = [
        Math.ceil(last / 3),
        ...Array.from({ length: MAX_ROWS - 1 }, (_, i) => Math.max(1, last - 10 + i)),
      ];
      const queries = randoms(MAX_ROWS * width, 3);
      const rows = numKeys.map((_, row) => row);
      const full = numKeys.map((count) => Math.floor(count / PAGE_TOKENS));
      const alone = bench.attend({ queries, keys, values }, numKeys, rows, full);
      for (let size = 1; size <= most; size++) {
        const firstRows = rows.filter((row) => row % size === 0);
        const shared = firstRows.map((first) => Math.min(...full.slice(first, first + size)));
        for (const fewer of [0, 1]) {
          const pages = shared.map((count) => Math.max(0, count - fewer));
          expect(bench.attend({ queries, keys, values }, numKeys, firstRows, pages)).toEqual(alone);
        }
      }
      for (const [row, count] of numKeys.entries()) {
        for (let head = 0; head < numHeads; head++) {
          const at = row * width + head * headSize;
          const expected = plainAttention(
            queries.subarray(at, at + headSize),
            { keys, values },
            count,
            sinks?.[head] ?? -Infinity,
          );
          for (const [d, value] of expected.entries()) largest = Math.max(largest, Math.abs(alone[at + d]! - value));
        }
      }
    }
    console.log(`heads of ${headSize}, ${numHeads} with a key head: largest difference ${largest.toExponential(1)}`);
    expect(largest).toBeLessThan(2e-6);
  },
);

test('a NaN or infinity in a query, a visible key or a visible value affects its own rows only', () => {
  const [headSize, numHeads] = [16, 3];
  const bench = new Bench(headSize, numHeads, null);
  const width = numHeads * headSize;
  const numKeys = [40, 50, 60, 70];
  const clean = {
    queries: randoms(numKeys.length * width, 1),
    keys: randoms(MAX_KEYS * headSize, 1),
    values: randoms(MAX_KEYS * headSize, 1),
  };
  const brokenRows = (name: keyof typeof clean, at: number): number[] => {
    const values = clean[name].slice();
    values[at] = NaN;
    const outputs = bench.attend({ ...clean, [name]: values }, numKeys, [0], [2]);
    return [...numKeys.keys()].filter((row) => outputs.subarray(row * width, (row + 1) * width).some(Number.isNaN));
  };
  expect(brokenRows('queries', 2 * width + headSize)).toEqual([2]);
  expect(brokenRows('keys', 3 * headSize)).toEqual([0, 1, 2, 3]);
  expect(brokenRows('keys', 59 * headSize)).toEqual([2, 3]);
  expect(brokenRows('values', 59 * headSize)).toEqual([2, 3]);
});

const bitsOf = (numbers: Float32Array): Int32Array =>
  new Int32Array(numbers.buffer, numbers.byteOffset, numbers.length);

test.each(
  AttentionKernels.instructionSetsFor(16).flatMap((instructions) =>
    [
      [64, 3],
      [64, 7],
      [80, 4],
      [96, 1],
      [128, 5],
      [16, 29],
    ].map(([headSize, numHeads]) => ({ instructions, headSize: headSize!, numHeads: numHeads! })),
  ),
)('the kernels in C have the bits of those in WebAssembly: %o', ({ instructions, headSize, numHeads }) => {
  const sinks = numHeads % 2 === 0 ? null : sinksOf(numHeads);
  const [native, twin] = [new Bench(headSize, numHeads, sinks, instructions), new Bench(headSize, numHeads, sinks)];
  const [keys, values] = [randoms(MAX_KEYS * headSize, 1), randoms(MAX_KEYS * headSize, 1)];
  // Scores so far apart that most weights are 0, and a NaN that reaches some rows.
  values[300 * headSize + 5] = NaN;
  const size = maxTileRows(numHeads, 1);
  let [numDifferent, numCompared] = [0, 0];
  for (const last of [1, 15, 16, 17, 260, 553]) {
    for (const scale of [3, 100]) {
      const queries = randoms(MAX_ROWS * numHeads * headSize, scale);
      const numKeys = Array.from({ length: MAX_ROWS }, (_, i) => Math.max(1, last - 10 + i));
      const firstRows = numKeys.map((_, row) => row).filter((row) => row % size === 0);
      const shared = firstRows.map((first) =>
        Math.floor(Math.min(...numKeys.slice(first, first + size)) / PAGE_TOKENS),
      );
      const [found, expected] = [native, twin].map((bench) =>
        bitsOf(bench.attend({ queries, keys, values }, numKeys, firstRows, shared)),
      );
      numDifferent += found!.filter((bits, i) => bits !== expected![i]).length;
      numCompared += found!.length;
    }
  }
  console.log(
    `${instructions}, heads of ${headSize}, ${numHeads} with a key head: ${numDifferent} of ${numCompared} differ`,
  );
  expect(numDifferent).toBe(0);
});

test('heads that are not whole vectors stay in WebAssembly', () => {
  expect(AttentionKernels.instructionSetsFor(72)).toEqual([]);
});
