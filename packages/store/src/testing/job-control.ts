import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { addJob, addModel, claim, eventTypes, LORA, type MakeHarness, type StoreHarness, train } from './harness.ts';

export function jobControlSuite(makeHarness: MakeHarness): void {
  describe('control of jobs', () => {
    let harness: StoreHarness;
    let store: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open();
    });
    afterEach(() => harness.destroy());
    const outcome = { directoryKey: 'checkpoints/new', digest: 'd', metrics: {} };

    it('a paused job holds back the later jobs of its model and those of no other, and keeps its place', async () => {
      const [one, two] = [await addModel(store, 'one'), await addModel(store, 'two')];
      const first = await addJob(store, one.id);
      const second = await addJob(store, one.id);
      const otherJob = await addJob(store, two.id);
      expect(await store.jobs.pause(first.id)).toMatchObject({ kind: 'done', job: { status: 'queued' } });
      expect((await claim(store)).id).toBe(otherJob.id);
      expect(await store.jobs.claim('worker-a', 1000)).toBeNull();
      expect(await store.jobs.resume(first.id)).toMatchObject({ kind: 'done', job: { pausedAt: null } });
      const held = await claim(store);
      expect(held.id).toBe(first.id);
      await store.jobs.succeed(held.id, held.fencingToken, outcome);
      expect((await claim(store)).id).toBe(second.id);
    });

    it('pausing a running job takes it from its worker without counting the attempt', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      const held = await claim(store);
      await store.jobs.appendEvent(id, held.fencingToken, { type: 'training_started', data: {} });
      const paused = await store.jobs.pause(id);
      expect(paused?.job).toMatchObject({ status: 'queued', lease: null, numAttempts: 0 });
      const lost = { code: 'store.lease_lost' };
      await expect(store.jobs.renew(id, held.fencingToken, 1000)).rejects.toMatchObject(lost);
      await expect(store.jobs.succeed(id, held.fencingToken, outcome)).rejects.toMatchObject(lost);
      await store.jobs.resume(id);
      const again = await claim(store);
      expect(again).toMatchObject({ id, numAttempts: 1, start: held.start });
      expect(again.fencingToken).toBeGreaterThan(held.fencingToken);
    });

    it('a pause survives a restart, and pausing or resuming again changes nothing', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      const first = await store.jobs.pause(id);
      expect(first?.job.pausedAt).toBeGreaterThan(0);
      expect(await store.jobs.pause(id)).toEqual(first);
      const reopened = await harness.open();
      await reopened.recoverAfterRestart();
      expect(await reopened.jobs.get(id)).toEqual(first?.job);
      expect(await reopened.jobs.claim('worker-a', 1000)).toBeNull();
      expect(await reopened.jobs.resume(id)).toEqual(await reopened.jobs.resume(id));
      expect((await claim(reopened)).id).toBe(id);
    });

    it('a paused job can be cancelled; an ended or unknown one can be neither paused nor resumed', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      await store.jobs.pause(id);
      const { job } = (await store.jobs.cancel(id, 'by the user')) ?? {};
      expect(job).toMatchObject({ status: 'cancelled', pausedAt: null });
      expect(await eventTypes(store, id)).toEqual(['training_failed']);
      expect(await store.jobs.pause(id)).toEqual({ kind: 'finished', job });
      expect(await store.jobs.resume(id)).toEqual({ kind: 'finished', job });
      expect([await store.jobs.pause('unknown'), await store.jobs.resume('unknown')]).toEqual([null, null]);
    });

    it('the reference weights of a job stay until it ends, and a job that is taken over keeps them', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await train(store, model.id, 'checkpoints/2');
      const { id } = await addJob(store, model.id);
      const held = await claim(store);
      expect(await store.jobs.keepReference(id, held.fencingToken, 7)).toBeNull();
      expect(await store.jobs.keepReference(id, held.fencingToken, 1)).toMatchObject({ directoryKey: 'checkpoints/1' });
      expect((await store.checkpoints.delete(model.id, [1])).directoryKeys).toEqual([]);
      expect((await store.files.listReferenced()).directoryKeys).toContain('checkpoints/1');
      await store.recoverAfterRestart();
      const again = await claim(store);
      expect(await store.jobs.keepReference(id, again.fencingToken, 1)).toEqual({ directoryKey: 'checkpoints/1' });
      await expect(store.jobs.keepReference(id, held.fencingToken, 1)).rejects.toMatchObject({
        code: 'store.lease_lost',
      });
      const { directoryKeys } = await store.jobs.fail(id, again.fencingToken, 'no');
      expect(directoryKeys).toEqual(['checkpoints/1']);
    });

    it('a job that waits keeps the reference that it names, if its model has the step already', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const waiting = { modelId: model.id, kind: 'rl', config: {}, dataKey: 'groups/r' } as const;
      const [named, later] = [
        await store.jobs.enqueue({ ...waiting, referenceStep: 1 }),
        await store.jobs.enqueue({ ...waiting, referenceStep: 7 }),
      ];
      expect((await store.checkpoints.delete(model.id, [1])).directoryKeys).toEqual([]);
      expect((await store.files.listReferenced()).directoryKeys).toEqual(['checkpoints/1']);
      const held = await claim(store);
      expect(held.id).toBe(named?.id);
      expect(await store.jobs.keepReference(held.id, held.fencingToken, 1)).toEqual({ directoryKey: 'checkpoints/1' });
      expect(await store.jobs.cancel(held.id, 'no')).toMatchObject({ directoryKeys: ['checkpoints/1'] });
      const other = await claim(store);
      expect(other.id).toBe(later?.id);
      expect(await store.jobs.keepReference(other.id, other.fencingToken, 7)).toBeNull();
    });

    it('the reference weights of a deleted model go with it', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const { id } = await addJob(store, model.id);
      const held = await claim(store);
      await store.jobs.keepReference(id, held.fencingToken, 1);
      await store.checkpoints.delete(model.id, [1]);
      expect((await store.models.delete(model.id))?.directoryKeys).toEqual(['checkpoints/1']);
    });

    it('events are counted by type, and the end can have more data', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      const held = await claim(store);
      for (const index of [0, 1, 1])
        await store.jobs.appendEvent(id, held.fencingToken, {
          type: 'gradient_step',
          data: {},
          dedupeKey: `gradient_step:${index}`,
        });
      await store.jobs.succeed(id, held.fencingToken, { ...outcome, data: { step: 1 } });
      expect([await store.jobs.countEvents(id, 'gradient_step'), await store.jobs.countEvents('unknown', 'x')]).toEqual(
        [2, 0],
      );
      expect((await store.jobs.listEvents({ jobId: id }))?.items.at(-1)?.data).toEqual({ step: 1 });
    });
  });

  describe('warm starts', () => {
    let harness: StoreHarness;
    let store: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open();
    });
    afterEach(() => harness.destroy());

    it('step 0 shares the files of another model’s checkpoint, which stay as long as one of the two needs them', async () => {
      const teacher = await addModel(store, 'teacher');
      await train(store, teacher.id, 'checkpoints/1');
      const input = { entityId: teacher.entityId, project: 'demo', name: 'pupil', baseModel: 'base', lora: LORA };
      const warmStart = {
        kind: 'checkpoint',
        source: 'local/demo/teacher:step1',
        modelId: teacher.id,
        step: 1,
      } as const;
      expect(await store.models.create({ ...input, warmStart: { ...warmStart, step: 9 } })).toEqual({
        kind: 'warm_start_missing',
      });
      const made = await store.models.create({ ...input, warmStart });
      if (made.kind !== 'created') throw new Error(made.kind);
      const pupil = made.model;
      expect(pupil.warmStart).toEqual({ source: 'local/demo/teacher:step1', directoryKey: 'checkpoints/1' });
      expect(await store.models.get(pupil.id)).toEqual(pupil);
      expect(await store.checkpoints.latest(pupil.id)).toMatchObject({ step: 0, directoryKey: 'checkpoints/1' });
      await addJob(store, pupil.id);
      expect((await claim(store)).start).toMatchObject({ step: 0, directoryKey: 'checkpoints/1' });
      expect((await store.models.delete(teacher.id))?.directoryKeys).toEqual([]);
      expect((await store.models.delete(pupil.id))?.directoryKeys).toEqual(['checkpoints/1']);
    });

    it('a directory that was committed for it can be step 0 as well', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const warmStart = {
        kind: 'directory',
        source: 'adapter.zip',
        directoryKey: 'checkpoints/i',
        digest: 'i',
      } as const;
      const made = await store.models.create({
        entityId,
        project: 'demo',
        name: 'imported',
        baseModel: 'base',
        lora: LORA,
        warmStart,
      });
      if (made.kind !== 'created') throw new Error(made.kind);
      expect(await store.checkpoints.latest(made.model.id)).toMatchObject({
        directoryKey: 'checkpoints/i',
        digest: 'i',
      });
    });
  });
}
