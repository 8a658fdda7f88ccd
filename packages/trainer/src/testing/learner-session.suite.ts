import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { TrainerError } from '../contract/errors.ts';
import type {
  LearnerForwardOptions,
  LearnerSession,
  RowBackward,
  RowForward,
  StepReport,
} from '../learner/learner-session.ts';
import type { PackedRow } from '../model/policy-model.ts';
import type { OptimizerConfig } from '../optimizer/adamw.ts';

export interface LearnerHarness {
  /** Opens another session over the same versions. */
  open(): Promise<LearnerSession>;
  /** Two or more, with trained tokens whose log-probabilities depend on the adapter. */
  readonly rows: readonly PackedRow[];
  /** Valid for `save`. */
  versionName(label: string): string;
  destroy(): Promise<void>;
}

const ADAM: OptimizerConfig = {
  learningRate: 0.02,
  adamBeta1: 0.9,
  adamBeta2: 0.99,
  adamEpsilon: 1e-8,
  weightDecay: 0,
  maxGradNorm: 1e30,
};

/** Requires a reported norm. */
function normOf({ gradNorm }: StepReport): number {
  expect(gradNorm).not.toBe(null);
  return gradNorm!;
}

/** Required of every `LearnerSession`, tested only through the interface. */
export function learnerSessionSuite(name: string, makeHarness: () => Promise<LearnerHarness>): void {
  describe(`LearnerSession: ${name}`, () => {
    let harness: LearnerHarness;
    let session: LearnerSession;
    beforeEach(async () => {
      harness = await makeHarness();
      session = await harness.open();
      await session.load(null, { jobKind: 'rl' });
    });
    afterEach(() => harness.destroy());

    const forward = async (options?: LearnerForwardOptions, learner = session): Promise<readonly RowForward[]> =>
      await learner.forward(harness.rows, options);
    const logprobs = async (options?: LearnerForwardOptions, learner = session): Promise<number[]> =>
      (await forward(options, learner)).flatMap((row) => [...row.logprobs]);

    /** Values in [-1, 1), the same for the same row. */
    const slopes = (row: PackedRow, scale: number): Float32Array => {
      const random = randomSource(row.targets.length + row.tokenIds.length);
      return Float32Array.from(row.targets, () => scale * random());
    };

    /** Gradient of Σ slope · (log-probability, or entropy), as many rows at once as the session keeps. */
    const gather = async (rows = harness.rows, scale = 1, of: 'logprobs' | 'entropies' = 'logprobs'): Promise<void> => {
      const { maxKeptRows } = session.capabilities;
      for (let first = 0; first < rows.length; first += maxKeptRows) {
        const part = rows.slice(first, first + maxKeptRows);
        await session.forward(part, { keep: of === 'logprobs' ? 'gradients' : 'entropyGradients' });
        await session.backward(
          part.map((row): RowBackward => ({
            lossGradient: slopes(row, of === 'logprobs' ? scale : 0),
            entropyGradient: of === 'entropies' ? slopes(row, scale) : null,
          })),
        );
      }
    };
    const total = (outputs: readonly RowForward[], of: 'logprobs' | 'entropies'): number =>
      outputs.reduce((sum, output, i) => {
        const slope = slopes(harness.rows[i]!, 1);
        return output[of]!.reduce((part, value, t) => part + slope[t]! * value, sum);
      }, 0);
    /** Plain gradient descent at this rate: AdamW's denominator is a constant that dominates every gradient. */
    const descend = async (rate: number): Promise<number> => {
      const adamEpsilon = 1e9;
      const config = { ...ADAM, learningRate: rate * adamEpsilon, adamBeta1: 0, adamBeta2: 0, adamEpsilon };
      return normOf(await session.step(config));
    };
    /** Other weights than the fresh ones, for which half of an adapter has no gradient. */
    const saved = async (label: string): Promise<string> => {
      const version = harness.versionName(label);
      for (let index = 0; index < 3; index++) {
        await gather();
        await session.step(ADAM);
      }
      await session.save(version, { isServed: false });
      return version;
    };

    it('returns finite log-probabilities of each trained token, the same ones each time, row by row or together', async () => {
      const together = await forward();
      expect(together.map((row) => row.logprobs.length)).toEqual(harness.rows.map((row) => row.targets.length));
      for (const { logprobs: values, entropies } of together) {
        expect(values.every((value) => Number.isFinite(value) && value <= 0)).toBe(true);
        expect(entropies === null).toBe(session.capabilities.entropies === 'none');
        expect(entropies?.every((value) => Number.isFinite(value) && value >= 0) ?? true).toBe(true);
      }
      const apart: number[] = [];
      for (const row of harness.rows) apart.push(...(await session.forward([row]))[0]!.logprobs);
      expect(apart).toEqual(together.flatMap((row) => [...row.logprobs]));
      expect(await session.forward([])).toEqual([]);
    });

    it('starts as the base model, which a step does not change', async () => {
      const before = await logprobs();
      await gather();
      await session.step(ADAM);
      expect(await logprobs()).not.toEqual(before);
      if (session.capabilities.reference !== 'none') expect(await logprobs({ under: 'base' })).toEqual(before);
      await session.load(null, { jobKind: 'rl' });
      expect(await logprobs()).toEqual(before);
      expect(session.numSteps).toBe(0);
    });

    it.each(['logprobs', 'entropies'] as const)(
      'steps down the gradient of a sum of %s, which equals finite differences',
      async (of) => {
        if (of === 'entropies' && session.capabilities.entropies !== 'gradients') return;
        const start = await saved('start');
        await gather(harness.rows, 1, of);
        const gradNorm = await descend(0);
        expect(gradNorm).toBeGreaterThan(1e-3);
        // A step of rate r along the gradient g changes the sum by r‖g‖², up to r³: even powers cancel.
        const rate = 0.02 / gradNorm ** 2;
        const moved = async (scale: number): Promise<number> => {
          await session.load(start, { jobKind: 'rl' });
          await gather(harness.rows, scale, of);
          expect(await descend(rate)).toBeCloseTo(gradNorm, 3);
          return total(await forward(), of);
        };
        const slope = ((await moved(-1)) - (await moved(1))) / (2 * rate);
        const difference = Math.abs(slope / gradNorm ** 2 - 1);
        console.log(
          `${name}, ${of}: finite differences differ from ‖gradient‖² by ${difference.toExponential(1)} of it`,
        );
        expect(difference).toBeLessThan(0.01);
      },
    );

    it('adds up several passes in any order, and restarts from zero after a step', async () => {
      const start = await saved('start');
      const after = async (rows: readonly PackedRow[]) => {
        await session.load(start, { jobKind: 'rl' });
        for (const row of rows) await gather([row]);
        return normOf(await session.step({ ...ADAM, learningRate: 0 }));
      };
      const [first, second] = harness.rows as [PackedRow, PackedRow];
      const both = await after([first, second]);
      expect(Math.abs((await after([second, first])) / both - 1)).toBeLessThan(1e-5);
      expect(Math.abs((await after([first])) / both - 1)).toBeGreaterThan(1e-3);
      expect((await session.step({ ...ADAM, learningRate: 0 })).gradNorm).toBe(0);
    });

    it('clips to a global norm, and returns the norm before that', async () => {
      const start = await saved('start');
      const changes: number[] = [];
      for (const maxGradNorm of [1e30, 1e-3]) {
        await session.load(start, { jobKind: 'rl', withFreshOptimizer: true });
        const before = await logprobs();
        await gather();
        const epsilon = 1e9;
        const report = await session.step({
          ...ADAM,
          adamBeta1: 0,
          adamBeta2: 0,
          adamEpsilon: epsilon,
          learningRate: epsilon * 1e-3,
          maxGradNorm,
        });
        expect(normOf(report)).toBeGreaterThan(0.01);
        const now = await logprobs();
        changes.push(now.reduce((sum, value, i) => sum + Math.abs(value - before[i]!), 0));
      }
      expect(changes[1]!).toBeLessThan(changes[0]! / 5);
    });

    it('continues from a saved version as it would have, momentum included, in this session and another', async () => {
      const start = await saved('start');
      expect(session.numSteps).toBe(3);
      const goOn = async (learner: LearnerSession): Promise<number[]> => {
        const own = session;
        session = learner;
        await gather();
        await session.step(ADAM);
        session = own;
        return await logprobs({}, learner);
      };
      const expected = await goOn(session);
      await session.load(start, { jobKind: 'rl' });
      expect(session.numSteps).toBe(3);
      expect(await goOn(session)).toEqual(expected);
      const other = await harness.open();
      await other.load(start, { jobKind: 'rl' });
      expect(await goOn(other)).toEqual(expected);
      await other.load(start, { jobKind: 'rl', withFreshOptimizer: true });
      expect(other.numSteps).toBe(0);
      expect(await goOn(other)).not.toEqual(expected);
      await other.load(start, { jobKind: 'sft' });
      expect(other.numSteps).toBe(0);
    });

    it('names versions by their weights, finds and removes them', async () => {
      const [one, same, later] = ['one', 'same', 'later'].map((label) => harness.versionName(label)) as [
        string,
        string,
        string,
      ];
      const first = await session.save(one, { metrics: { reward: 1 } });
      const { sizeBytes, ...named } = first;
      expect(named).toEqual({ name: one, digest: expect.stringMatching(/^[0-9a-f]{64}$/) as string });
      if (sizeBytes !== undefined) expect(sizeBytes).toBeGreaterThan(0);
      // Null: it has not seen the weights of an unserved version.
      expect([first.digest, null]).toContain((await session.save(same, { isServed: false })).digest);
      await gather();
      await session.step(ADAM);
      const second = await session.save(later);
      expect(second.digest).not.toBe(first.digest);
      expect(await session.find(one)).toEqual(named);
      expect((await session.save(one)).digest).toBe(second.digest);
      expect(await (await harness.open()).find(one)).toEqual({ name: one, digest: second.digest });
      await session.discard(one);
      await session.discard(one);
      expect(await session.find(one)).toBe(null);
    });

    it('computes under a saved version and keeps its own weights', async () => {
      if (session.capabilities.reference !== 'versions') return;
      const start = await saved('start');
      const then = await logprobs();
      await gather();
      await session.step(ADAM);
      const now = await logprobs();
      expect(await logprobs({ under: { version: start } })).toEqual(then);
      expect(await logprobs()).toEqual(now);
      await expect(forward({ under: { version: harness.versionName('none') } })).rejects.toMatchObject({
        code: 'trainer.checkpoint_unreadable',
      });
      expect(await logprobs()).toEqual(now);
    });

    it('computes under the current version of a name: one that replaced another, and none that is discarded', async () => {
      if (session.capabilities.reference !== 'versions') return;
      const version = await saved('start');
      const then = await logprobs();
      expect(await logprobs({ under: { version } })).toEqual(then);
      await gather();
      await session.step(ADAM);
      await session.save(version);
      const now = await logprobs();
      expect(now).not.toEqual(then);
      expect(await logprobs({ under: { version } })).toEqual(now);
      await session.discard(version);
      await expect(forward({ under: { version } })).rejects.toMatchObject({ code: 'trainer.checkpoint_unreadable' });
    });

    it('refuses unsupported input with an error and its retry advice, without a change of state', async () => {
      await saved('start');
      const before = await logprobs();
      const missing = session.load(harness.versionName('none'), { jobKind: 'rl' });
      await expect(missing).rejects.toBeInstanceOf(TrainerError);
      await expect(missing).rejects.toMatchObject({ code: 'trainer.checkpoint_unreadable', retry: 'never' });
      const [row] = harness.rows as [PackedRow];
      const unknown = { ...row, targets: row.targets.map(() => session.model.vocabSize) };
      await expect(session.forward([unknown])).rejects.toMatchObject({
        code: 'trainer.token_out_of_range',
        retry: 'never',
      });
      expect(await logprobs()).toEqual(before);
      expect(session.numSteps).toBe(3);
    });

    it('ends a cancelled call, drops the gathered gradient if that was a backward, and stays usable', async () => {
      const before = await logprobs();
      const signal = AbortSignal.abort();
      const cancelled = { code: 'trainer.cancelled', retry: 'never' };
      await expect(forward({ signal })).rejects.toMatchObject(cancelled);
      expect(await logprobs()).toEqual(before);
      const [row] = harness.rows as [PackedRow];
      await gather([row]);
      await session.forward([row], { keep: 'gradients' });
      const gradients = [{ lossGradient: slopes(row, 1), entropyGradient: null }];
      await expect(session.backward(gradients, { signal })).rejects.toMatchObject(cancelled);
      expect((await session.step(ADAM)).gradNorm).toBe(0);
      await gather([row]);
      await expect(session.step(ADAM, { signal })).rejects.toMatchObject(cancelled);
      expect(await logprobs()).toEqual(before);
      expect(session.numSteps).toBe(1);
    });
  });
}
