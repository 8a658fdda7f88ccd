import { afterEach, expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { PagedAttention } from './paged-attention.ts';
import type { PagedAttentionSizes } from './paged-attention.ts';
import { promptRows } from './prompt-rows.ts';
import { promptsHaveSameBits } from './same-bits.ts';

const opened: PagedAttention[] = [];
afterEach(() => {
  for (const attention of opened.splice(0)) attention.close();
});

const SIZES = { numLayers: 1, numHeads: 6, numKvHeads: 2, headSize: 64, capacityTokens: 6000, maxSequences: 8 };
function open(computesPrompts: boolean, sizes: Partial<PagedAttentionSizes> = {}): PagedAttention {
  const all = { ...SIZES, contextLength: 1600, maxRows: 2000, numThreads: 1, ...sizes };
  const attention = new PagedAttention(all, undefined, { minPromptScores: computesPrompts ? 1 : Infinity });
  opened.push(attention);
  return attention;
}

type Rows = readonly { readonly sequence: number; readonly from: number; readonly end: number }[];
type Tensor = 'queries' | 'keys' | 'values';

/** Repeatable numbers by tensor, sequence and position. @param broken place of a NaN */
class Tokens {
  readonly #sizes: Pick<PagedAttentionSizes, 'numHeads' | 'numKvHeads' | 'headSize'>;
  readonly #broken: { tensor: Tensor; sequence: number; position: number } | null;

  constructor(
    sizes: Pick<PagedAttentionSizes, 'numHeads' | 'numKvHeads' | 'headSize'> = SIZES,
    broken: { tensor: Tensor; sequence: number; position: number } | null = null,
  ) {
    this.#sizes = sizes;
    this.#broken = broken;
  }

  /** Outputs of a batch's rows, [heads · D] each. */
  attend(attention: PagedAttention, rows: Rows): Float32Array[] {
    const { numHeads, numKvHeads, headSize } = this.#sizes;
    const tokens = rows.flatMap(({ sequence, from, end }) =>
      Array.from({ length: end - from }, (_, i) => ({ sequence, position: from + i })),
    );
    for (const { sequence, from, end } of rows) attention.tables.append(sequence, end - from);
    const sequences = Int32Array.from(tokens, ({ sequence }) => sequence);
    const positions = Int32Array.from(tokens, ({ position }) => position);
    const numbers = (tensor: Tensor, width: number, scale: number): Float32Array => {
      const all = new Float32Array(tokens.length * width);
      for (const [row, { sequence, position }] of tokens.entries()) {
        const random = randomSource(1 + tensor.length + 100 * sequence + 10_000 * position);
        for (let i = 0; i < width; i++) all[row * width + i] = scale * random();
        const broken = this.#broken;
        if (broken?.tensor === tensor && broken.sequence === sequence && broken.position === position)
          all[row * width] = NaN;
      }
      return all;
    };
    attention.begin(tokens.length, sequences, positions);
    attention.queries(0, tokens.length).set(numbers('queries', numHeads * headSize, 6));
    const [keys, values] = [numbers('keys', numKvHeads * headSize, 1), numbers('values', numKvHeads * headSize, 1)];
    attention.write(0, { keys, values }, { sequences, positions });
    const sinks = Float32Array.from({ length: numHeads }, (_, head) => (head % 2 === 0 ? head - 2 : -Infinity));
    attention.attend(0, null, sinks);
    const outputs = attention.outputs(0, tokens.length);
    const width = numHeads * headSize;
    return tokens.map((_, row) => outputs.slice(row * width, (row + 1) * width));
  }
}

test('the products of ONNX Runtime have the bits of the steps over pages, if each feature is in one sum', () => {
  const found = [
    [64, 3],
    [64, 1],
    [128, 7],
    [96, 2],
    [80, 4],
    [32, 8],
    [16, 6],
    [256, 2],
  ].map(([headSize, numHeads]) => promptsHaveSameBits({ headSize: headSize!, numHeads: numHeads!, numKvHeads: 1 }));
  console.log(`same bits: ${found.join(', ')}`);
  // MLAS cuts features into sums of 128.
  const expected = [true, true, true, true, true, true, true, false];
  expect(process.arch === 'x64' ? found : expected).toEqual(expected);
});

test.each(
  [
    { numHeads: 6, numKvHeads: 2, headSize: 64 },
    { numHeads: 2, numKvHeads: 2, headSize: 128 },
    { numHeads: 58, numKvHeads: 2, headSize: 12 },
  ].filter(promptsHaveSameBits),
)('a prompt has the same bits in one batch as in many, among others and on any number of threads: %o', (sizes) => {
  const tokens = new Tokens(sizes);
  const whole: Rows = [{ sequence: 0, from: 0, end: 1203 }];
  const inTiles = tokens.attend(open(false, sizes), whole);
  for (const numThreads of [1, 3]) expect(tokens.attend(open(true, { ...sizes, numThreads }), whole)).toEqual(inTiles);

  const inParts = open(true, sizes);
  const found: Float32Array[] = [];
  for (const [from, end] of [
    [0, 1],
    [1, 300],
    [300, 1100],
    [1100, 1116],
    [1116, 1202],
    [1202, 1203],
  ] as const) {
    // Other sequences decode and start in the same batch.
    const others: Rows = [
      { sequence: 1, from, end: from + 1 },
      { sequence: 0, from, end },
      { sequence: 2, from: 2 * from, end: Math.min(2 * end, 1500) },
      { sequence: 3, from, end: from + 1 },
    ];
    const rows = others.filter((part) => part.end > part.from);
    for (const { sequence, from: position } of rows) {
      const missing = position - inParts.tables.lengthOf(sequence);
      if (missing > 0) tokens.attend(inParts, [{ sequence, from: position - missing, end: position }]);
    }
    const outputs = tokens.attend(inParts, rows);
    found.push(...outputs.slice(1, 1 + end - from));
  }
  expect(found).toEqual(inTiles);
});

test('a NaN or infinity in a prompt affects only the rows that see it', () => {
  const rows: Rows = [{ sequence: 0, from: 0, end: 800 }];
  for (const tensor of ['keys', 'values', 'queries'] as const) {
    const tokens = new Tokens(SIZES, { tensor, sequence: 0, position: 333 });
    const outputs = tokens.attend(open(true), rows);
    const broken = [...outputs.keys()].filter((row) => outputs[row]!.some(Number.isNaN));
    expect(broken).toEqual(tensor === 'queries' ? [333] : Array.from({ length: 467 }, (_, i) => 333 + i));
    expect(outputs).toEqual(tokens.attend(open(false), rows));
  }
});

test('pages of an ended sequence with NaN or infinity do not affect the next one', () => {
  const attention = open(true, { capacityTokens: 800, maxSequences: 1 });
  const rows: Rows = [{ sequence: 0, from: 0, end: 782 }];
  for (let position = 768; position < 784; position++) {
    for (const tensor of ['keys', 'values'] as const) {
      attention.tables.forget(0, 0);
      new Tokens(SIZES, { tensor, sequence: 0, position }).attend(attention, [{ sequence: 0, from: 0, end: 784 }]);
      attention.tables.forget(0, 0);
      const outputs = new Tokens().attend(attention, rows);
      expect(outputs.findIndex((row) => row.some(Number.isNaN))).toBe(-1);
    }
  }
}, 60_000);

test('adjacent rows of one sequence are a prompt, if they are many and see much', () => {
  const batch = (...parts: readonly [sequence: number, from: number, count: number][]) => {
    const rows = parts.flatMap(([sequence, from, count]) =>
      Array.from({ length: count }, (_, i) => ({ sequence, position: from + i })),
    );
    const sequences = Int32Array.from(rows, ({ sequence }) => sequence);
    const positions = Int32Array.from(rows, ({ position }) => position);
    return promptRows(rows.length, sequences, positions, { group: 3, minScores: 12_288 });
  };
  expect(batch([0, 0, 1])).toEqual([]);
  expect(batch([0, 0, 90])).toEqual([]);
  expect(batch([0, 0, 91])).toEqual([{ firstRow: 0, endRow: 91, numKeys: 91 }]);
  expect(batch([0, 5000, 15])).toEqual([]);
  expect(batch([0, 5000, 16])).toEqual([{ firstRow: 0, endRow: 16, numKeys: 5016 }]);
  expect(batch([0, 247, 16])).toEqual([]);
  expect(batch([0, 248, 16])).toEqual([{ firstRow: 0, endRow: 16, numKeys: 264 }]);
  expect(batch([3, 700, 1], [4, 400, 100], [5, 500, 200], [6, 900, 1])).toEqual([
    { firstRow: 1, endRow: 101, numKeys: 500 },
    { firstRow: 101, endRow: 301, numKeys: 700 },
  ]);
  expect(batch([0, 500, 20], [0, 600, 20])).toEqual([
    { firstRow: 0, endRow: 20, numKeys: 520 },
    { firstRow: 20, endRow: 40, numKeys: 620 },
  ]);
});
