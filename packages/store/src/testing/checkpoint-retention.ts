import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { addJob, addModel, claim, type MakeHarness, ManualClock, type StoreHarness, train } from './harness.ts';

export function checkpointRetentionSuite(makeHarness: MakeHarness): void {
  describe('which checkpoints are kept', () => {
    let harness: StoreHarness;
    let store: Store;
    let clock: ManualClock;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());

    const stepsOf = async (modelId: string) =>
      (await store.checkpoints.list({ modelId })).items.map(({ step }) => step);
    const modelWith = async (numSteps: number) => {
      const { id } = await addModel(store);
      for (let step = 1; step <= numSteps; step++) await train(store, id, `checkpoints/${step}`, { metrics: { step } });
      return id;
    };

    it('a removed step is gone everywhere, keeps its row, and is back as it was when it is marked', async () => {
      const id = await modelWith(3);
      const before = await store.checkpoints.get(id, 1);
      expect(await store.retention.remove(id, [1, 2, 7])).toEqual({
        steps: [1, 2],
        directoryKeys: ['checkpoints/1', 'checkpoints/2'],
        digests: ['digest of checkpoints/1', 'digest of checkpoints/2'],
      });
      expect(await stepsOf(id)).toEqual([0, 3]);
      expect(await store.checkpoints.get(id, 1)).toBeNull();
      expect(await store.files.isNamed('checkpoints/1')).toBe(false);
      expect((await store.files.listReferenced()).directoryKeys).toEqual(['checkpoints/3']);
      expect((await store.feed.list({})).at(-1)).toMatchObject({
        type: 'checkpoints_deleted',
        data: { steps: [1, 2], reason: 'keep_checkpoints' },
      });

      expect(await store.retention.mark(id, [1, 9], true)).toEqual({ steps: [1], notFoundSteps: [9] });
      expect(await store.checkpoints.get(id, 1)).toEqual(before);
      expect(await store.files.isNamed('checkpoints/1')).toBe(true);

      const [removed] = (await store.retention.listStates(id)).filter(({ removedAt }) => removedAt !== null);
      expect(removed).toMatchObject({ step: 2, directoryKey: 'checkpoints/2', removedAt: clock.nowMs });
      await store.retention.forget([removed!.id]);
      expect(await store.retention.mark(id, [2], true)).toEqual({ steps: [], notFoundSteps: [2] });
    });

    it('nothing is removed that is the newest, marked, requested, or read by a job, an export or another model', async () => {
      const id = await modelWith(8);
      await store.retention.mark(id, [1], true);
      await store.retention.hold(id, 2, clock.nowMs + 1);
      await store.exports.create({ modelId: id, step: 3, format: 'peft', dtype: 'f32' });
      const { entityId } = (await store.models.get(id))!;
      const other = {
        entityId,
        project: 'demo',
        name: 'other',
        baseModel: 'base',
        lora: (await store.models.get(id))!.lora,
      };
      await store.models.create({
        ...other,
        warmStart: { kind: 'checkpoint', modelId: id, step: 4, source: 'local/demo/agent:step4' },
      });
      await store.jobs.enqueue({ modelId: id, kind: 'rl', config: {}, dataKey: 'groups/r', referenceStep: 5 });
      expect((await store.retention.remove(id, [0, 1, 2, 3, 4, 5, 6, 7, 8])).steps).toEqual([6, 7]);

      // The holds end with their causes.
      await store.retention.mark(id, [1], false);
      clock.advance(2);
      expect((await store.retention.remove(id, [1, 2])).steps).toEqual([1, 2]);
    });

    it('a hold only grows', async () => {
      const id = await modelWith(2);
      await store.retention.hold(id, 1, clock.nowMs + 10);
      await store.retention.hold(id, 1, clock.nowMs + 5);
      expect((await store.retention.listStates(id))[1]).toMatchObject({ usedUntil: clock.nowMs + 10 });
    });

    it('the optimizer state of a step goes unless a live job starts from it', async () => {
      const id = await modelWith(2);
      await addJob(store, id);
      const job = await claim(store);
      expect(job.start).toMatchObject({ step: 2 });
      expect(await store.retention.dropOptimizers(id, [0, 1, 2])).toEqual(['checkpoints/1']);
      expect(await store.retention.isOptimizerDropped('checkpoints/1')).toBe(true);
      expect(await store.retention.isOptimizerDropped('checkpoints/2')).toBe(false);
    });

    it('the optimizer state stays of steps that were marked since they were listed, and of the newest', async () => {
      const id = await modelWith(4);
      await store.retention.mark(id, [1], true);
      await store.checkpoints.delete(id, [4]);
      expect(await store.retention.dropOptimizers(id, [1, 2, 3])).toEqual(['checkpoints/2']);
      for (const step of [1, 3]) expect(await store.retention.isOptimizerDropped(`checkpoints/${step}`)).toBe(false);
      await train(store, id, 'checkpoints/5');
      await store.retention.remove(id, [3]);
      expect(await store.retention.dropOptimizers(id, [3])).toEqual([]);
      await store.retention.mark(id, [1], false);
      expect(await store.retention.dropOptimizers(id, [1])).toEqual(['checkpoints/1']);
    });

    it('a model that began with the weights of another does not drop the optimizer state of that one', async () => {
      const id = await modelWith(1);
      const { entityId, project, baseModel, lora } = (await store.models.get(id))!;
      const warmStart = { kind: 'checkpoint', modelId: id, step: 1, source: 'local/demo/agent:step1' } as const;
      const made = await store.models.create({ entityId, project, name: 'pupil', baseModel, lora, warmStart });
      if (made.kind !== 'created') throw new Error(made.kind);
      const pupilId = made.model.id;
      await train(store, pupilId, 'checkpoints/pupil');
      const isShared = async (modelId: string) =>
        (await store.retention.listStates(modelId)).map((state) => state.isOptimizerShared);
      expect([await isShared(id), await isShared(pupilId)]).toEqual([
        [false, false],
        [true, false],
      ]);
      expect(await store.retention.dropOptimizers(pupilId, [0])).toEqual([]);
      expect(await store.retention.isOptimizerDropped('checkpoints/1')).toBe(false);

      // Its own model may; so may the other after that model is gone.
      await train(store, id, 'checkpoints/2');
      expect(await store.retention.dropOptimizers(id, [1])).toEqual(['checkpoints/1']);
      await store.models.delete(id);
      expect(await isShared(pupilId)).toEqual([false, false]);
      expect(await store.retention.dropOptimizers(pupilId, [0])).toEqual(['checkpoints/1']);
    });

    it('the newest versions are those that are kept and have files, by their digests', async () => {
      const id = await modelWith(4);
      await train(store, id, null); // shares the directory of step 4
      await store.retention.remove(id, [3]);
      const versions = (...steps: number[]) =>
        new Map(steps.map((step) => [`digest of checkpoints/${step}`, `checkpoints/${step}`]));
      expect(await store.checkpoints.newestVersions(id, 10)).toEqual(versions(1, 2, 4));
      expect(await store.checkpoints.newestVersions(id, 3)).toEqual(versions(2, 4));
      expect(await store.checkpoints.newestVersions('unknown', 10)).toEqual(new Map());
    });

    it('sizes are summed once for each directory', async () => {
      const id = await modelWith(1);
      await train(store, id, null); // shares the directory of step 1
      await train(store, id, 'checkpoints/3');
      await store.retention.setSizes('checkpoints/1', { sizeBytes: 2_000_000_000, optimizerBytes: 3_000_000_000 });
      await store.retention.mark(id, [1], true);
      expect(await store.retention.sum()).toEqual({
        numCheckpoints: 4,
        numMarked: 1,
        numUnmeasured: 1,
        sizeBytes: 2_000_000_000,
        optimizerBytes: 3_000_000_000,
      });
      expect(await store.retention.listModelsTrainedSince(clock.nowMs)).toEqual([id]);
      expect(await store.retention.listModelsTrainedSince(clock.nowMs + 1)).toEqual([]);
    });
  });
}
