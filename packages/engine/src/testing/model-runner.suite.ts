import { NO_TRUNCATION } from '@trainyard/protocol/fields';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KvFullError, StepBatch } from '../runner/model-runner.ts';
import type { LogitRows, ModelRunner, RowDraw, RunnerAdapter } from '../runner/model-runner.ts';
import { DrawKey } from '../sampling/random.ts';
import { SamplerBuffers, sampleToken } from '../sampling/sampler.ts';

export interface ModelRunnerHarness {
  /** Has room for 4 sequences and 64 to some hundred cells. */
  readonly runner: ModelRunner;
  /** Ids of a text, at least 40, not all equal. */
  readonly tokens: readonly number[];
  /** Adapter files that change the logits in different ways. */
  readonly adapterPaths: readonly [string, string];
  /** Cells beyond those reported, for example to fill up pages. */
  readonly spareCells: number;
  /** Maximum difference of logits between batch shapes. */
  readonly tolerance: number;
  /** The same for reproducible batches. 0 = equal to the bit. */
  readonly reproducibleTolerance: number;
}

/** More tokens than a full runner can hold: as many as the largest page. */
const PAGEFUL = 16;

/** Starts at the sequence's current end. */
interface Piece {
  readonly sequence: number;
  readonly tokens: readonly number[];
  /** Default 0. */
  readonly from?: number;
  readonly adapter?: RunnerAdapter | null;
  /** Default: the last token's only. */
  readonly wantsAll?: boolean;
}

/** Behaviour required of every {@link ModelRunner}. Closes the runners. */
export function modelRunnerSuite(name: string, open: () => Promise<ModelRunnerHarness> | ModelRunnerHarness): void {
  describe(`ModelRunner: ${name}`, () => {
    let runner: ModelRunner;
    let harness: ModelRunnerHarness;
    beforeEach(async () => {
      harness = await open();
      ({ runner } = harness);
    });
    afterEach(() => runner.close());

    const batchOf = (pieces: readonly Piece[], isReproducible = false): StepBatch => {
      const batch = new StepBatch(runner.batchTokens);
      batch.clear();
      batch.isReproducible = isReproducible;
      for (const { sequence, tokens, from = 0, adapter = null, wantsAll = false } of pieces) {
        for (const [i, token] of tokens.entries())
          batch.add({ token, position: from + i, sequence, wantsLogits: wantsAll || i === tokens.length - 1 }, adapter);
      }
      return batch;
    };
    /** Copies rows, which are valid only until the next run. */
    const copied = (rows: LogitRows, count: number): Float32Array[] =>
      Array.from({ length: count }, (_, index) => rows.row(index).slice());
    const compute = async (pieces: readonly Piece[], isReproducible = false): Promise<Float32Array[]> => {
      const batch = batchOf(pieces, isReproducible);
      return copied(await runner.run(batch), batch.numLogits);
    };
    /** Logits after these tokens, in a sequence that is empty before and after. */
    const alone = async (tokens: readonly number[], adapter: RunnerAdapter | null = null): Promise<Float32Array> => {
      const [row] = await compute([{ sequence: 3, tokens, adapter }]);
      runner.forget(3, 0);
      return row!;
    };
    const prompt = (length: number, offset = 0): readonly number[] => {
      const { tokens } = harness;
      return Array.from({ length }, (_, i) => tokens[(i + offset) % tokens.length]!);
    };

    it('reports its size', () => {
      const { vocabSize, capacityTokens, contextLength, maxSequences, batchTokens, shareGranularity } = runner;
      for (const size of [vocabSize, capacityTokens, contextLength, maxSequences, batchTokens, shareGranularity]) {
        expect(Number.isInteger(size)).toBe(true);
        expect(size).toBeGreaterThanOrEqual(1);
      }
      expect(contextLength).toBeLessThanOrEqual(capacityTokens);
      expect(maxSequences).toBeGreaterThanOrEqual(4);
      expect(runner.adaptersPerBatch).toBeGreaterThanOrEqual(1);
    });

    it('gives the rows of the flagged tokens, in the order of the batch, to be written into', async () => {
      const batch = batchOf([
        { sequence: 0, tokens: prompt(6) },
        { sequence: 1, tokens: prompt(4, 7), wantsAll: true },
      ]);
      const rows = await runner.run(batch);
      expect(batch.numLogits).toBe(5);
      const kept = copied(rows, 5);
      for (const row of kept) {
        expect(row).toHaveLength(runner.vocabSize);
        expect(row.every((logit) => Number.isFinite(logit))).toBe(true);
      }
      rows.row(2).fill(7);
      expect(rows.row(2).every((logit) => logit === 7)).toBe(true);
      for (const index of [0, 1, 3, 4]) expect(rows.row(index)).toEqual(kept[index]);
      expect(gap(kept[0], await alone(prompt(6)))).toBeLessThanOrEqual(harness.tolerance);
      for (let length = 1; length <= 4; length++)
        expect(gap(kept[length], await alone(prompt(length, 7)))).toBeLessThanOrEqual(harness.tolerance);
    });

    it('computes a prompt in pieces as in one', async () => {
      const tokens = prompt(20);
      const whole = await alone(tokens);
      let last: Float32Array | undefined;
      for (const [from, to] of [
        [0, 9],
        [9, 10],
        [10, 20],
      ] as const)
        [last] = await compute([{ sequence: 0, tokens: tokens.slice(from, to), from }]);
      expect(gap(last, whole)).toBeLessThanOrEqual(harness.tolerance);
    });

    it('keeps sequences apart: each has the logits of its own tokens', async () => {
      const [first, second] = [prompt(8), prompt(8, 3)];
      const expected = [await alone([...first, second[0]!]), await alone([...second, first[0]!])];
      await compute([
        { sequence: 0, tokens: first },
        { sequence: 1, tokens: second },
      ]);
      const rows = await compute([
        { sequence: 0, tokens: [second[0]!], from: 8 },
        { sequence: 1, tokens: [first[0]!], from: 8 },
      ]);
      for (const [i, row] of rows.entries()) expect(gap(row, expected[i]!)).toBeLessThanOrEqual(harness.tolerance);
      expect(gap(expected[0]!, expected[1]!)).toBeGreaterThan(harness.tolerance);
    });

    it('shares a prefix that outlives its first holder, and each continues by itself', async () => {
      const length = Math.ceil(8 / runner.shareGranularity) * runner.shareGranularity;
      const tokens = prompt(length);
      const [one, other] = prompt(2, length + 1) as [number, number];
      const expected = [await alone([...tokens, one]), await alone([...tokens, other])];
      await compute([{ sequence: 0, tokens: [...tokens, other] }]);
      runner.share(0, 1, length);
      const [shared] = await compute([{ sequence: 1, tokens: [one], from: length }]);
      expect(gap(shared, expected[0]!)).toBeLessThanOrEqual(harness.tolerance);
      runner.share(1, 2, length);
      runner.forget(0, 0);
      const [again] = await compute([{ sequence: 2, tokens: [other], from: length }]);
      expect(gap(again, expected[1]!)).toBeLessThanOrEqual(harness.tolerance);
      const [goesOn] = await compute([{ sequence: 1, tokens: [other], from: length + 1 }]);
      expect(gap(goesOn, await alone([...tokens, one, other]))).toBeLessThanOrEqual(harness.tolerance);
    });

    it('forgets from a position on, and continues from there', async () => {
      const tokens = prompt(12);
      await compute([{ sequence: 0, tokens }]);
      runner.forget(0, 5);
      const [row] = await compute([{ sequence: 0, tokens: prompt(4, 20), from: 5 }]);
      expect(gap(row, await alone([...tokens.slice(0, 5), ...prompt(4, 20)]))).toBeLessThanOrEqual(harness.tolerance);
    });

    it('refuses a batch that has no cells, changes nothing, and has them again when some are forgotten', async () => {
      const expected = await alone(prompt(2 + PAGEFUL));
      const { capacityTokens } = runner;
      await compute([{ sequence: 1, tokens: prompt(2) }]);
      let held = 2;
      for (let sequence = 0; held < capacityTokens; sequence = 2) {
        // In pieces, and over two sequences if one is too short.
        const limit = sequence === 0 ? Math.min(runner.contextLength, capacityTokens - held) : capacityTokens - held;
        for (let from = 0; from < limit;) {
          const count = Math.min(runner.batchTokens, limit - from);
          await compute([{ sequence, tokens: prompt(count, from), from }]);
          [from, held] = [from + count, held + count];
        }
      }
      for (let extra = 0; extra < harness.spareCells; extra++) {
        try {
          await runner.run(batchOf([{ sequence: 3, tokens: [prompt(1)[0]!], from: extra }]));
        } catch {
          break;
        }
      }
      const batch = batchOf([{ sequence: 1, tokens: prompt(PAGEFUL, 2), from: 2 }]);
      await expect((async () => runner.run(batch))()).rejects.toBeInstanceOf(KvFullError);
      await expect((async () => runner.run(batch))()).rejects.toBeInstanceOf(KvFullError);
      runner.forget(0, 0);
      expect(gap(copied(await runner.run(batch), 1)[0], expected)).toBeLessThanOrEqual(harness.tolerance);
    });

    it('computes the same for the same tokens if that is requested, next to any other rows', async () => {
      const tokens = prompt(10);
      await compute([{ sequence: 0, tokens: tokens.slice(0, 9) }], true);
      const [lone] = await compute([{ sequence: 0, tokens: [tokens[9]!], from: 9 }], true);
      await compute(
        [
          { sequence: 2, tokens: prompt(7, 2) },
          { sequence: 1, tokens: tokens.slice(0, 9) },
        ],
        true,
      );
      const [, accompanied] = await compute(
        [
          { sequence: 2, tokens: prompt(5, 9), from: 7 },
          { sequence: 1, tokens: [tokens[9]!], from: 9 },
        ],
        true,
      );
      expect(gap(accompanied, lone!)).toBeLessThanOrEqual(harness.reproducibleTolerance);
    });

    it('computes with each adapter in turn, and without one as before', async () => {
      const base = await alone(prompt(9));
      const adapters = harness.adapterPaths.map((path) => runner.loadAdapter(path));
      const adapted = [await alone(prompt(9), adapters[0]), await alone(prompt(9), adapters[1])];
      expect(gap(await alone(prompt(9)), base)).toBeLessThanOrEqual(harness.tolerance);
      for (const [a, b] of [
        [base, adapted[0]!],
        [base, adapted[1]!],
        [adapted[0]!, adapted[1]!],
      ] as const)
        expect(gap(a, b)).toBeGreaterThan(harness.tolerance);
      for (const adapter of adapters) {
        expect(adapter.sizeBytes).toBeGreaterThan(0);
        adapter.close();
      }
      expect(gap(await alone(prompt(9)), base)).toBeLessThanOrEqual(harness.tolerance);
    });

    it('computes with as many adapters at once as it reports', async () => {
      const adapters = [null, ...harness.adapterPaths.map((path) => runner.loadAdapter(path))];
      const together = adapters.slice(0, runner.adaptersPerBatch);
      const expected: Float32Array[] = [];
      for (const adapter of together) expected.push(await alone(prompt(9), adapter));
      const rows = await compute(together.map((adapter, sequence) => ({ sequence, tokens: prompt(9), adapter })));
      for (const [i, row] of rows.entries()) expect(gap(row, expected[i]!)).toBeLessThanOrEqual(harness.tolerance);
      for (const adapter of adapters) adapter?.close();
    });

    it('refuses a file that is no adapter as unreadable', () => {
      expect(() => runner.loadAdapter(`${harness.adapterPaths[0]}.missing`)).toThrow(/./);
    });

    it('draws on the device, if it can, the same as the engine would', async () => {
      if (runner.runAndDraw === undefined) return;
      const pieces: Piece[] = [{ sequence: 0, tokens: prompt(12), wantsAll: true }];
      const rows = await compute(pieces);
      runner.forget(0, 0);
      const off = NO_TRUNCATION;
      const settings = [
        { ...off, temperature: 0 },
        { ...off, temperature: 1 },
        { ...off, temperature: 0.7, topP: 0.8 },
        { ...off, temperature: 2, topK: 5 },
        { ...off, temperature: 1, minP: 0.1 },
        { ...off, temperature: 1, topNSigma: 1 },
      ];
      const draws = rows.map((_, i): RowDraw | null =>
        i % 6 === 5 ? null : { settings: settings[i % 6]!, key: new DrawKey(i, 17 * i) },
      );
      const drawn = await runner.runAndDraw(batchOf(pieces), draws);
      const buffers = new SamplerBuffers(runner.vocabSize);
      for (const [i, draw] of draws.entries()) {
        if (draw === null) {
          expect(gap(drawn.row(i), rows[i]!)).toBeLessThanOrEqual(harness.tolerance);
          continue;
        }
        const { token } = sampleToken(rows[i]!, draw, buffers);
        expect(drawn.token(i)).toBe(token);
      }
    });
  });
}

function gap(a: Float32Array | undefined, b: Float32Array): number {
  if (a?.length !== b.length) return Infinity;
  let largest = 0;
  for (const [i, value] of a.entries()) largest = Math.max(largest, Math.abs(value - b[i]!));
  return largest;
}
