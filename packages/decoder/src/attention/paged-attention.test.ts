import { AttentionKernels } from '@trainyard/native';
import { afterEach, expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { PagedAttention } from './paged-attention.ts';
import type { AttentionMethods } from './paged-attention.ts';
import { instructionsWithSameBits } from './same-bits.ts';

const SIZES = { numLayers: 3, numHeads: 6, numKvHeads: 2, headSize: 16, capacityTokens: 512, maxSequences: 8 };
/** Three heads have one. */
const SINKS = Float32Array.of(0.5, -1, 3, -Infinity, -Infinity, -Infinity);
const opened: PagedAttention[] = [];
afterEach(() => {
  for (const attention of opened.splice(0)) attention.close();
});
const open = (
  sizes: Partial<ConstructorParameters<typeof PagedAttention>[0]> = {},
  methods: AttentionMethods = {},
): PagedAttention => {
  const all = { ...SIZES, contextLength: 512, maxRows: 300, numThreads: 1, ...sizes };
  const attention = new PagedAttention(all, undefined, methods);
  opened.push(attention);
  return attention;
};

function outputs(
  attention: PagedAttention,
  lengths: readonly number[],
  seed = 3,
  window: number | null = null,
): Float32Array[] {
  const { numLayers, numHeads, numKvHeads, headSize } = SIZES;
  const sequences = Int32Array.from(lengths.flatMap((length, sequence) => Array.from({ length }, () => sequence)));
  const positions = Int32Array.from(lengths.flatMap((length) => Array.from({ length }, (_, i) => i)));
  for (const [sequence, length] of lengths.entries()) {
    attention.tables.forget(sequence, 0);
    attention.tables.append(sequence, length);
  }
  const numRows = positions.length;
  attention.begin(numRows, sequences, positions);
  return Array.from({ length: numLayers }, (_, layer) => {
    // Values depend on sequence, position and layer, not on the place in the batch.
    const fill = (values: Float32Array, width: number, kind: number) => {
      for (let row = 0; row < numRows; row++) {
        const random = randomSource(
          seed + 10 * kind + 100 * layer + 1000 * sequences[row]! + 100_000 * positions[row]!,
        );
        for (let i = 0; i < width; i++) values[row * width + i] = random();
      }
      return values;
    };
    const keyWidth = numKvHeads * headSize;
    fill(attention.queries(layer, numRows), numHeads * headSize, 0);
    const [k, v] = [1, 2].map((kind) => fill(new Float32Array(numRows * keyWidth), keyWidth, kind));
    attention.write(layer, { keys: k!, values: v! }, { sequences, positions });
    attention.attend(layer, window, SINKS);
    return attention.outputs(layer, numRows).slice();
  });
}

const sum = (count: number, at: (i: number) => number): number => {
  let total = 0;
  for (let i = 0; i < count; i++) total += at(i);
  return total;
};

test('the sinks of a call are not those of the next one', () => {
  const attention = open();
  const length = 40;
  outputs(attention, [length]);
  const attended = (sinks?: Float32Array) => {
    attention.attend(0, null, sinks);
    return attention.outputs(0, length).slice();
  };
  const without = attended(SINKS.map(() => -Infinity));
  expect(attended(SINKS)).not.toEqual(without);
  expect(attended()).toEqual(without);
});

test('four threads compute the same as one, to the bit', () => {
  const lengths = [120, 3, 77, 1, 60];
  const alone = outputs(open(), lengths);
  const many = open({ numThreads: 4 });
  for (let round = 0; round < 20; round++) expect(outputs(many, lengths)).toEqual(alone);
});

test.each(AttentionKernels.instructionSetsFor(SIZES.headSize))(
  'kernels for %s compute the same as WebAssembly, to the bit: several threads and memories, with a window and without',
  (instructions) => {
    const lengths = [120, 3, 77, 1, 60];
    for (const window of [null, 5, 16, 40]) {
      const expected = outputs(open(), lengths, 3, window);
      for (const sizes of [{ numThreads: 3 }, { capacityTokens: 6_700_000 }])
        expect(outputs(open(sizes, { instructions }), lengths, 3, window)).toEqual(expected);
    }
  },
);

test('the kernels for the widest instructions of this machine are used, if it has any', () => {
  const [widest = null] = AttentionKernels.instructionSetsFor(SIZES.headSize);
  console.log(`kernels for ${widest}`);
  expect(instructionsWithSameBits(SIZES)).toBe(widest);
  expect(instructionsWithSameBits({ ...SIZES, headSize: 20 })).toBe(null);
});

test.each([1, 5, 16, 17, 40, 100, 1000])(
  'a window of %d tokens, from the definition and to the bit on four threads',
  (window) => {
    const { numHeads, numKvHeads, headSize } = SIZES;
    const lengths = [120, 3, 77];
    const found = outputs(open(), lengths, 3, window);
    expect(outputs(open({ numThreads: 4 }), lengths, 3, window)).toEqual(found);
    // Without its neighbours, one of which is longer than a window of 100.
    const width = numHeads * headSize;
    const alone = outputs(open(), [0, 0, 77], 3, window);
    for (const [layer, values] of alone.entries()) expect(values).toEqual(found[layer]!.subarray(123 * width));
    const numbers = (sequence: number, position: number, kind: number, count: number): number[] => {
      const random = randomSource(3 + 10 * kind + 1000 * sequence + 100_000 * position);
      return Array.from({ length: count }, () => Math.fround(random()));
    };
    let largest = 0;
    let row = 0;
    for (const [sequence, length] of lengths.entries()) {
      const keys = Array.from({ length }, (_, i) => numbers(sequence, i, 1, numKvHeads * headSize));
      const values = Array.from({ length }, (_, i) => numbers(sequence, i, 2, numKvHeads * headSize));
      for (let position = 0; position < length; position++, row++) {
        const q = numbers(sequence, position, 0, width);
        for (let head = 0; head < numHeads; head++) {
          const at = Math.floor((head * numKvHeads) / numHeads) * headSize;
          const first = Math.max(0, position + 1 - window);
          const weights = keys
            .slice(first, position + 1)
            .map((key) => Math.exp(sum(headSize, (d) => q[head * headSize + d]! * key[at + d]!) / Math.sqrt(headSize)));
          const total = Math.exp(SINKS[head]!) + sum(weights.length, (i) => weights[i]!);
          for (let d = 0; d < headSize; d++) {
            const expected = sum(weights.length, (i) => weights[i]! * values[first + i]![at + d]!) / total;
            largest = Math.max(largest, Math.abs(found[0]![row * width + head * headSize + d]! - expected));
          }
        }
      }
    }
    console.log(`window of ${window}: largest difference ${largest.toExponential(1)}`);
    expect(largest).toBeLessThan(2e-6);
  },
);

test('the outputs of a sequence depend neither on the rest of the batch nor on the place of its pages', () => {
  const attention = open();
  const width = SIZES.numHeads * SIZES.headSize;
  const company = outputs(attention, [70, 33, 90]);
  // Pages freed by the first round are reused in another order.
  const alone = outputs(attention, [0, 33]);
  for (const [layer, values] of alone.entries()) expect(values).toEqual(company[layer]!.slice(70 * width, 103 * width));
});

test('layers that do not fit one memory are spread over several', () => {
  const lengths = [50, 20];
  const expected = outputs(open(), lengths);
  // Two layers of 1.7 GB each, of which only the used pages are touched.
  const large = open({ capacityTokens: 6_700_000 });
  expect(large.numMemories).toBe(2);
  expect(outputs(large, lengths)).toEqual(expected);
});

test('a layer that fits no memory is refused with its size', () => {
  expect(() => open({ capacityTokens: 100_000_000 })).toThrow(
    /^keys and values of 100000000 tokens need \d+ bytes per layer, the maximum is \d+$/,
  );
});

test('rollouts have the same bits with a shared prompt and with prompts of their own, on any number of threads', () => {
  const [promptLength, numRollouts, numSteps] = [133, 7, 20];
  const run = (attention: PagedAttention, isShared: boolean): Float32Array[] => {
    const { numHeads, numKvHeads, headSize } = SIZES;
    const keyWidth = numKvHeads * headSize;
    const found: Float32Array[] = [];
    const compute = (sequences: number[], positions: number[]) => {
      const rows = { sequences: Int32Array.from(sequences), positions: Int32Array.from(positions) };
      attention.begin(sequences.length, rows.sequences, rows.positions);
      // Prompt tokens are equal in all sequences, later ones are not.
      const values = (width: number, kind: number): Float32Array =>
        Float32Array.from(
          sequences.flatMap((sequence, row) => {
            const position = positions[row]!;
            const random = randomSource(kind + 10 * position + (position < promptLength ? 0 : 10_000 * (sequence + 1)));
            return Array.from({ length: width }, () => random());
          }),
        );
      attention.queries(0, sequences.length).set(values(numHeads * headSize, 0));
      attention.write(0, { keys: values(keyWidth, 1), values: values(keyWidth, 2) }, rows);
      attention.attend(0);
      found.push(attention.outputs(0, sequences.length).slice());
    };
    const append = (sequence: number, count: number) => {
      const copy = attention.tables.append(sequence, count);
      if (copy !== null) attention.copyPage(copy);
    };
    for (let sequence = 0; sequence < numRollouts; sequence++) {
      if (isShared && sequence > 0) {
        attention.tables.share(0, sequence, promptLength);
        continue;
      }
      append(sequence, promptLength);
      compute(
        Array.from({ length: promptLength }, () => sequence),
        Array.from({ length: promptLength }, (_, i) => i),
      );
      if (sequence > 0) expect(found.pop()).toEqual(found[0]);
    }
    const sequences = Array.from({ length: numRollouts }, (_, i) => i);
    for (let step = 0; step < numSteps; step++) {
      for (const sequence of sequences) append(sequence, 1);
      compute(
        sequences,
        sequences.map(() => promptLength + step),
      );
    }
    return found;
  };
  const alone = run(open({ capacityTokens: 2048 }), false);
  expect(run(open(), true)).toEqual(alone);
  for (const numThreads of [2, 5]) expect(run(open({ numThreads }), true)).toEqual(alone);
});
