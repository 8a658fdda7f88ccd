import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { addJob, addModel, claim, type MakeHarness, ManualClock, type StoreHarness, train } from './harness.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export function retentionSuite(makeHarness: MakeHarness): void {
  describe('retention', () => {
    let harness: StoreHarness;
    let store: Store;
    let clock: ManualClock;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());
    const blobKeys = async () => (await store.files.listReferenced()).blobKeys.toSorted();
    const counts = { numGroups: 2, numTrajectories: 8, numExceptions: 1 };
    const log = (modelId: string, blobKey: string) =>
      store.trajectories.recordLog({ modelId, split: 'val', blobKey, ...counts, metrics: { 'val/reward': 0.5 } });

    it('data of jobs that ended and logs go by age; queued, paused and running jobs keep theirs', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1', { metrics: { 'train/entropy': 0.25 } });
      const [ended] = (await store.jobs.list({ modelId: model.id })).items;
      await log(model.id, 'logs/old');
      const running = await addJob(store, (await addModel(store, 'second')).id);
      await claim(store);
      const paused = await addJob(store, model.id);
      await store.jobs.pause(paused.id);
      const queued = await addJob(store, model.id);
      clock.advance(30 * DAY_MS);
      const young = await addJob(store, model.id);
      await store.jobs.cancel(young.id, 'enough');
      await log(model.id, 'logs/young');

      expect(await store.trajectories.expire(clock.read() - 30 * DAY_MS, 100)).toEqual({
        numJobs: 0,
        numLogs: 0,
        blobKeys: [],
      });
      const before = clock.read() - 30 * DAY_MS + 1;
      const expired = await store.trajectories.expire(before, 100);
      expect(expired).toMatchObject({ numJobs: 1, numLogs: 1 });
      expect(new Set(expired.blobKeys)).toEqual(new Set([ended?.dataKey, 'logs/old']));
      expect(await blobKeys()).toEqual(
        [running.dataKey, paused.dataKey, queued.dataKey, young.dataKey, 'logs/young'].toSorted(),
      );
      expect(await store.files.isNamed('logs/old')).toBe(false);
      expect(await store.trajectories.expire(before, 100)).toMatchObject({ numJobs: 0, numLogs: 0, blobKeys: [] });

      // Rows, events and metrics stay.
      expect(await store.jobs.get(ended?.id ?? '')).toEqual({ ...ended, dataRemovedAt: clock.read() });
      expect((await store.jobs.listEvents({ jobId: ended?.id ?? '' }))?.items).toHaveLength(1);
      expect((await store.checkpoints.latest(model.id))?.metrics).toEqual({ 'train/entropy': 0.25, 'val/reward': 0.5 });
      expect((await store.trajectories.listLogs({ modelId: model.id })).items).toMatchObject([
        { blobKey: 'logs/old', ...counts, metrics: { 'val/reward': 0.5 }, dataRemovedAt: clock.read() },
        { blobKey: 'logs/young', dataRemovedAt: null },
      ]);
      for (const { id } of [running, paused, queued, young])
        expect(await store.jobs.get(id)).toMatchObject({ dataRemovedAt: null });
    });

    it('so many go at a time, oldest first, and a file that another row names stays', async () => {
      const model = await addModel(store);
      for (let i = 0; i < 3; i++) {
        await log(model.id, i === 1 ? 'logs/0' : `logs/${i}`);
        clock.advance(1);
      }
      const part = () => store.trajectories.expire(clock.read(), 1);
      expect(await part()).toEqual({ numJobs: 0, numLogs: 1, blobKeys: [] });
      expect(await part()).toEqual({ numJobs: 0, numLogs: 1, blobKeys: ['logs/0'] });
      expect(await part()).toEqual({ numJobs: 0, numLogs: 1, blobKeys: ['logs/2'] });
      expect(await part()).toEqual({ numJobs: 0, numLogs: 0, blobKeys: [] });
    });

    it('usage merges to one record an hour for each key, project, model and kind, and every sum stays', async () => {
      const usage = { keyId: 'k', entityId: 'e', project: null, model: 'base', kind: 'chat' as const };
      const kinds = [
        usage,
        { ...usage, keyId: 'k2' },
        { ...usage, project: '' },
        { ...usage, project: 'p' },
        { ...usage, model: 'agent' },
        { ...usage, kind: 'completion' as const },
        { ...usage, entityId: 'other' },
      ];
      const start = clock.read();
      const record = async (numRequests: number) => {
        for (let i = 0; i < numRequests; i++)
          for (const [j, kind] of kinds.entries())
            void store.usage.record({ ...kind, promptTokens: i, completionTokens: j });
        await store.usage.sum({}); // writes them
      };
      for (let i = 0; i < 6; i++) {
        await record(i + 1);
        clock.advance(HOUR_MS / 3);
      }
      await record(3);
      const sums = async () => [
        await store.usage.sum({}),
        await store.usage.sum({ entityId: 'e' }),
        await store.usage.sum({ to: start + HOUR_MS }),
        await store.usage.sum({ from: start + HOUR_MS, to: start + 2 * HOUR_MS }),
        await store.usage.sum({ from: start + 2 * HOUR_MS }),
      ];
      const before = await sums();
      const merge = async (limit: number) => {
        const merged: number[] = [];
        do merged.push(await store.usage.merge(start + 2 * HOUR_MS + HOUR_MS / 2, limit));
        while (merged.at(-1) !== 0);
        return merged;
      };
      // The hour of the bound is left alone.
      expect(await merge(16)).toEqual([16, 16, 10, 0]);
      expect(await sums()).toEqual(before);

      // Late usage, on a clock that was set back, is added to its hour.
      clock.advance(-2 * HOUR_MS);
      await record(2);
      const withLate = await sums();
      expect(withLate).not.toEqual(before);
      expect(await merge(100)).toEqual([kinds.length, 0]);
      expect(await sums()).toEqual(withLate);
    });
  });
}
