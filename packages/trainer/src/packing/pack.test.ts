import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packRows, rowLength, type CreditedSequence, type TrainingRow } from './pack.ts';

const ROW_TOKENS = 24;

/** A tiny vocabulary: prefixes are shared, branches happen and whole sequences repeat. */
const sequences = fc
  .array(
    fc.record({
      groupIndex: fc.integer({ min: 0, max: 3 }),
      tokens: fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.boolean()), { minLength: 2, maxLength: ROW_TOKENS }),
    }),
    { minLength: 1, maxLength: 20 },
  )
  .map((drawn) =>
    drawn
      .toSorted((a, b) => a.groupIndex - b.groupIndex)
      .map(({ groupIndex, tokens }, index): CreditedSequence => {
        // Histories end with a trained token, and their first one is never trained.
        const lossMask = Uint8Array.from(tokens, ([, isTrained], i) =>
          Number(i > 0 && (isTrained || i === tokens.length - 1)),
        );
        return {
          groupIndex,
          trajectoryIndex: index,
          sequenceIndex: 0,
          tokenIds: Int32Array.from(tokens, ([token]) => token),
          lossMask,
          oldLogprobs: Float32Array.from(lossMask, (flag, i) => (flag ? -(index * 100 + i) : NaN)),
          advantage: index + 1, // identifies the sequences after packing
          weight: 1 / (index + 1),
        };
      }),
  );

/** Tokens from a root to `index`, both included. */
function pathTo({ row }: TrainingRow, index: number): number[] {
  const path: number[] = [];
  for (let at = index; at !== -1; at = row.parents[at]!) path.unshift(row.tokenIds[at]!);
  return path;
}

describe('packRows', () => {
  it('trains every token exactly once, after its own prefix', () => {
    fc.assert(
      fc.property(sequences, fc.integer(), (input, seed) => {
        const seen = new Map<number, Set<number>>(); // sequence → trained places found in the rows
        for (const packed of packRows(input, ROW_TOKENS, seed)) {
          packed.row.targets.forEach((target, i) => {
            const index = packed.advantages[i]! - 1;
            const { tokenIds, lossMask, oldLogprobs, weight } = input[index]!;
            const prefix = pathTo(packed, packed.row.sources[i]!);
            expect([...prefix, target]).toEqual([...tokenIds.subarray(0, prefix.length + 1)]);
            expect(lossMask[prefix.length]).toBe(1);
            expect(packed.sampledLogprobs[i]).toBe(oldLogprobs[prefix.length]);
            expect(packed.weights[i]).toBe(weight);
            const places = seen.get(index) ?? seen.set(index, new Set()).get(index)!;
            expect(places.has(prefix.length)).toBe(false);
            places.add(prefix.length);
          });
        }
        input.forEach(({ lossMask }, index) => {
          expect(seen.get(index)!.size).toBe(lossMask.reduce((sum, flag) => sum + flag, 0));
        });
      }),
    );
  });

  it('keeps rows within the limit, free of duplicate prefixes, in depth-first order with depth as position', () => {
    fc.assert(
      fc.property(sequences, fc.integer(), (input, seed) => {
        for (const packed of packRows(input, ROW_TOKENS, seed)) {
          const { tokenIds, positions, parents } = packed.row;
          expect(tokenIds.length).toBeLessThanOrEqual(ROW_TOKENS);
          const paths = Array.from(tokenIds.keys(), (i) => pathTo(packed, i));
          expect(new Set(paths.map(String)).size).toBe(tokenIds.length);
          paths.forEach((path, i) => {
            expect(positions[i]).toBe(path.length - 1);
            // Depth first: a token's parent is the row's previous token or one of that token's ancestors.
            const previous = i === 0 ? [] : paths[i - 1]!;
            expect(parents[i]!).toBeLessThan(i);
            expect(path.slice(0, -1)).toEqual(previous.slice(0, path.length - 1));
          });
        }
      }),
    );
  });

  it('numbers histories by row, counts unshared tokens, and depends only on the seed', () => {
    fc.assert(
      fc.property(sequences, fc.integer(), (input, seed) => {
        const rows = packRows(input, ROW_TOKENS, seed);
        expect(rows).toEqual(packRows(input, ROW_TOKENS, seed));
        const total = (values: number[]): number => values.reduce((sum, value) => sum + value, 0);
        expect(total(rows.map((row) => row.numHistories))).toBe(input.length);
        expect(total(rows.map((row) => row.numSequenceTokens))).toBe(
          total(input.map(({ tokenIds }) => tokenIds.length)),
        );
        for (const { histories, numHistories, advantages } of rows) {
          // Each history has one advantage, so there are as many pairs as histories.
          expect(new Set(Array.from(histories, (history, i) => `${history} ${advantages[i]}`)).size).toBe(numHistories);
        }
      }),
    );
  });

  it('trains the same completion twice when it was sampled twice with different rewards', () => {
    const twin = (advantage: number): CreditedSequence => ({
      groupIndex: 0,
      trajectoryIndex: 0,
      sequenceIndex: 0,
      tokenIds: Int32Array.of(5, 6, 7),
      lossMask: Uint8Array.of(0, 0, 1),
      oldLogprobs: Float32Array.of(NaN, NaN, -1),
      advantage,
      weight: 1,
    });
    const [packed, ...others] = packRows([twin(1), twin(-1)], ROW_TOKENS, 0);
    expect(others).toHaveLength(0);
    expect([...packed!.row.tokenIds]).toEqual([5, 6]);
    expect([...packed!.row.sources]).toEqual([1, 1]);
    expect([...packed!.row.targets]).toEqual([7, 7]);
    expect(new Set(packed!.advantages)).toEqual(new Set([-1, 1]));
  });

  it('puts three groups of eight short answers into one row', () => {
    const input = Array.from({ length: 24 }, (_, index): CreditedSequence => {
      const tokenIds = Int32Array.from({ length: 70 }, (__, i) =>
        i < 60 ? Math.floor(index / 8) * 1000 + i : index * 5000 + i,
      );
      const lossMask = Uint8Array.from(tokenIds, (__, i) => Number(i >= 60));
      return {
        groupIndex: Math.floor(index / 8),
        trajectoryIndex: index % 8,
        sequenceIndex: 0,
        tokenIds,
        lossMask,
        oldLogprobs: new Float32Array(70).fill(-1),
        advantage: 1,
        weight: 1,
      };
    });
    const rows = packRows(input, rowLength(70, { packedSequenceLength: null, maxSequenceLength: 32_768 }), 0);
    expect(rows).toHaveLength(1);
    expect(rows[0]!.row.tokenIds).toHaveLength(3 * 60 + 24 * 9); // prompts once; last tokens are only predicted
    expect(rows[0]!.row.targets).toHaveLength(240);
  });

  it('takes a sequence of 32,768 tokens', () => {
    const tokenIds = Int32Array.from({ length: 32_768 }, (_, i) => i % 50_000);
    const lossMask = new Uint8Array(32_768).fill(1, 1);
    const input = {
      groupIndex: 0,
      trajectoryIndex: 0,
      sequenceIndex: 0,
      tokenIds,
      lossMask,
      oldLogprobs: new Float32Array(32_768),
      advantage: 1,
      weight: 1,
    };
    const [packed] = packRows([input], 32_768, 1);
    expect(packed!.row.positions.at(-1)).toBe(32_766);
  });
});

describe('rowLength', () => {
  it('rounds the longest history up to 2,048, within the limit', () => {
    const none = { packedSequenceLength: null, maxSequenceLength: 32_768 };
    expect(rowLength(1, none)).toBe(2048);
    expect(rowLength(2049, none)).toBe(4096);
    expect(rowLength(40_000, none)).toBe(32_768);
    expect(rowLength(40_000, { packedSequenceLength: 60, maxSequenceLength: 32_768 })).toBe(60);
  });
});
