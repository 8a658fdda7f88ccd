import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { RunTracker, TrackedPoint, TrackedRun } from '../jobs/tracking/run-tracker.ts';

export interface TrackerHarness {
  readonly tracker: RunTracker;
  /** Values of a metric in the tracker, by step; null if it has no such run, or it was deleted. */
  read(id: string, metric: string): Promise<[step: number, value: number][] | null>;
  close(): Promise<void>;
}

/** The behaviour required of every `RunTracker`. */
export function runTrackerSuite(name: string, open: () => Promise<TrackerHarness>): void {
  describe(`RunTracker: ${name}`, () => {
    let harness: TrackerHarness;
    beforeAll(async () => {
      harness = await open();
    });
    afterAll(() => harness.close());

    const signal = () => AbortSignal.timeout(60_000);
    let numRuns = 0;
    const runOf = (parts: Partial<TrackedRun> = {}): TrackedRun => ({
      runId: `run-${numRuns++}-${crypto.randomUUID()}`,
      entity: 'local',
      project: 'demo',
      name: 'agent',
      createdAt: Date.UTC(2026, 0, 1),
      parameters: { base_model: 'tiny/base' },
      ...parts,
    });
    const point = (step: number, metrics: Record<string, number>): TrackedPoint => ({
      time: Date.UTC(2026, 0, 1) + step,
      step,
      metrics,
    });

    it('can be used', async () => {
      await expect(harness.tracker.check(signal())).resolves.toBeUndefined();
    });

    it('makes one run of a model, however often it is asked, and two of two that have the same name', async () => {
      const run = runOf();
      const first = await harness.tracker.begin(run, signal());
      expect(await harness.tracker.begin(run, signal())).toEqual(first);
      expect((await harness.tracker.begin(runOf(), signal())).id).not.toBe(first.id);
      expect((await harness.tracker.begin(runOf({ project: 'other', entity: 'acme' }), signal())).id).not.toBe(
        first.id,
      );
    });

    it('keeps each point once, also when it is sent again', async () => {
      const { tracker } = harness;
      const { id } = await tracker.begin(runOf(), signal());
      await tracker.log(
        id,
        [point(0, { 'train/loss': 2, 'val/reward': 0.5 }), point(1, { 'train/loss': 1 })],
        signal(),
      );
      await tracker.log(id, [point(1, { 'train/loss': 1 }), point(2, { 'train/loss': -1e-9 })], signal());
      await tracker.log(id, [], signal());
      expect(await harness.read(id, 'train/loss')).toEqual([
        [0, 2],
        [1, 1],
        [2, -1e-9],
      ]);
      expect(await harness.read(id, 'val/reward')).toEqual([[0, 0.5]]);
    });

    it('takes thousands of values at once, and any name of a metric', async () => {
      const { tracker } = harness;
      const { id } = await tracker.begin(runOf(), signal());
      const points = Array.from({ length: 60 }, (_, step) =>
        point(step, Object.fromEntries(Array.from({ length: 40 }, (__, i) => [`train/m${i}`, step * i]))),
      );
      await tracker.log(id, [...points, point(60, { 'val/größe (µ)': 1 })], signal());
      expect(await harness.read(id, 'train/m39')).toHaveLength(60);
    });

    it('deletes a run, also twice and one that never existed; it then takes no points and is created again', async () => {
      const { tracker } = harness;
      const run = runOf();
      const { id } = await tracker.begin(run, signal());
      await tracker.log(id, [point(0, { a: 1 })], signal());
      await tracker.delete(id, signal());
      await tracker.delete(id, signal());
      await tracker.delete('0'.repeat(32), signal());
      expect(await harness.read(id, 'a')).toBeNull();
      await expect(tracker.log(id, [point(1, { a: 1 })], signal())).rejects.toMatchObject({ code: 'gone' });
      await expect(tracker.log('0'.repeat(32), [point(1, { a: 1 })], signal())).rejects.toMatchObject({ code: 'gone' });
      const again = await tracker.begin(run, signal());
      expect(again.id).not.toBe(id);
      await tracker.log(again.id, [point(1, { a: 1 })], signal());
    });
  });
}
