import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import {
  addJob,
  addModel,
  claim,
  eventTypes,
  LORA,
  type MakeHarness,
  ManualClock,
  type StoreHarness,
  train,
} from './harness.ts';

const WEEK_MS = 7 * 24 * 3600 * 1000;

export function modelSuite(makeHarness: MakeHarness): void {
  describe('models and checkpoints', () => {
    let harness: StoreHarness;
    let store: Store;
    const clock = new ManualClock();
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());

    it('a new model has the checkpoint of step 0, without artifact and metrics', async () => {
      const model = await addModel(store);
      expect(model).toMatchObject({
        entity: 'local',
        project: 'demo',
        name: 'agent',
        lora: LORA,
        numGradientSteps: 0,
        nextStep: 1,
      });
      expect(model.runId).toBe(model.id);
      expect(await store.models.get(model.id)).toEqual(model);
      expect((await store.checkpoints.list({ modelId: model.id })).items).toMatchObject([
        { step: 0, directoryKey: null, digest: null, metrics: {} },
      ]);
    });

    it('a digest is the name of the steps that have it, and unused when none has', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const digest = 'digest of checkpoints/1';
      expect(await store.checkpoints.stepsOf([digest, 'other', digest])).toEqual([
        { digest, entity: 'local', project: 'demo', name: 'agent', step: 1 },
      ]);
      expect(await store.checkpoints.unusedDigests([digest, 'other'])).toEqual(['other']);
      await store.models.delete(model.id);
      expect(await store.checkpoints.stepsOf([digest])).toEqual([]);
      expect(await store.checkpoints.unusedDigests([digest])).toEqual([digest]);
    });

    it('one name in one project is one model, also when two handles make it at the same time', async () => {
      const other = await harness.open({ clock: clock.read });
      const { id: entityId } = await store.keys.ensureEntity('local');
      const input = { entityId, project: 'demo', name: 'agent', lora: LORA };
      const results = await Promise.all([
        store.models.create({ ...input, baseModel: 'first' }),
        other.models.create({ ...input, baseModel: 'second' }),
      ]);
      expect(results.map((result) => result.kind).toSorted()).toEqual(['created', 'exists']);
      const [model, same] = results.map((result) => (result.kind === 'warm_start_missing' ? null : result.model));
      expect(model).toEqual(same);
      const inOtherProject = await store.models.create({ ...input, project: 'other', baseModel: 'first' });
      expect(inOtherProject.kind).toBe('created');
    });

    it('a bare name finds one model, none, or the list of candidates', async () => {
      const first = await addModel(store, 'agent', 'one');
      expect(await store.models.find('local', 'one', 'agent')).toEqual(first);
      expect(await store.models.find('local', 'two', 'agent')).toBeNull();
      expect(await store.models.findByName('local', 'agent')).toEqual({ kind: 'found', model: first });
      expect(await store.models.findByName('local', 'nobody')).toEqual({ kind: 'none' });
      expect(await store.models.findByName('other', 'agent')).toEqual({ kind: 'none' });
      const second = await addModel(store, 'agent', 'two');
      expect(await store.models.findByName('local', 'agent')).toEqual({ kind: 'ambiguous', models: [first, second] });
    });

    it('rollouts start after the last supervised job, else at step 0, regardless of deletions', async () => {
      const { id } = await addModel(store);
      await train(store, id, 'checkpoints/1');
      expect(await store.checkpoints.rolloutsBeganAt(id, 1)).toBe(0);
      await train(store, id, 'checkpoints/2', { kind: 'sft' });
      await train(store, id, 'checkpoints/3');
      await store.checkpoints.delete(id, [2]);
      expect(await Promise.all([1, 2, 3].map((step) => store.checkpoints.rolloutsBeganAt(id, step)))).toEqual([
        0, 2, 2,
      ]);
    });

    it('tags, notes and the archive are changed together or not at all, and lists are filtered by them', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const input = { entityId, project: 'one', baseModel: 'base', lora: LORA };
      const created = await store.models.create({ ...input, name: 'a', tags: ['β', 'sweep 1', 'β'], notes: 'first' });
      if (created.kind !== 'created') throw new Error(created.kind);
      const { model: one } = created;
      expect(one).toMatchObject({ notes: 'first', archivedAt: null });
      const two = await addModel(store, 'b', 'one');
      const three = await addModel(store, 'c', 'one');
      const tagsOf = async (id: string) => (await store.models.getStates([id])).get(id)?.tags;
      expect(await tagsOf(one.id)).toEqual(['sweep 1', 'β']);
      expect(await tagsOf(two.id)).toEqual([]);
      expect(await store.models.label('nobody', { notes: 'x' })).toBeNull();
      const label = { addTags: ['sweep 1', "it's %_ 🚂"], removeTags: ['β', 'none'], notes: 'line\n2 🚂' };
      expect(await store.models.label(one.id, label)).toMatchObject({
        kind: 'labelled',
        model: { notes: 'line\n2 🚂' },
      });
      expect(await tagsOf(one.id)).toEqual(["it's %_ 🚂", 'sweep 1']);
      await store.models.label(two.id, { addTags: ['sweep 1'] });

      const tooMany = { addTags: ['x', 'y'], removeTags: ['sweep 1'], notes: 'lost', isArchived: true, maxTags: 2 };
      expect(await store.models.label(one.id, tooMany)).toEqual({ kind: 'too_many_tags', numTags: 3 });
      // A limit that was lowered since does not stop removals.
      expect(await store.models.label(one.id, { removeTags: ['none'], maxTags: 1 })).toMatchObject({
        kind: 'labelled',
      });
      expect(await store.models.get(one.id)).toMatchObject({ notes: 'line\n2 🚂', archivedAt: null });

      const ids = async (query: Parameters<Store['models']['list']>[0]) =>
        (await store.models.list(query)).items.map(({ id }) => id);
      expect(await ids({ tags: ['sweep 1'] })).toEqual([one.id, two.id]);
      expect(await ids({ tags: ['sweep 1', "it's %_ 🚂"] })).toEqual([one.id]);
      expect(await ids({ tags: ['none'] })).toEqual([]);
      const archived = await store.models.label(two.id, { isArchived: true });
      expect(archived).toMatchObject({ kind: 'labelled', model: { archivedAt: clock.read() } });
      clock.advance(1000);
      expect(await store.models.label(two.id, { isArchived: true })).toEqual(archived);
      expect(await ids({ archived: 'excluded' })).toEqual([one.id, three.id]);
      expect(await ids({ archived: 'only', tags: ['sweep 1'] })).toEqual([two.id]);
      expect(await ids({})).toEqual([one.id, two.id, three.id]);
      expect(await ids({ after: two.id, tags: ['sweep 1'] })).toEqual([]);
      expect(await ids({ after: two.id })).toEqual([three.id]);
      expect((await store.models.findByName('local', 'b')).kind).toBe('found');
      await store.models.label(two.id, { isArchived: false });
      expect(await store.models.get(two.id)).toEqual(two);
      expect((await store.feed.list({ modelId: two.id })).map(({ type }) => type)).toEqual([
        'model_created',
        ...Array.from({ length: 4 }, () => 'model_labelled'),
      ]);
    });

    it('a model that trains is not archived, and an archived one takes no training jobs', async () => {
      const model = await addModel(store);
      await addJob(store, model.id);
      expect(await store.models.label(model.id, { isArchived: true, addTags: ['x'] })).toEqual({
        kind: 'live_jobs',
        numJobs: 1,
      });
      expect((await store.models.getStates([model.id])).get(model.id)?.tags).toEqual([]);
      const { id, fencingToken } = await claim(store);
      await store.jobs.fail(id, fencingToken, 'broken');
      expect(await store.models.label(model.id, { isArchived: true })).toMatchObject({ kind: 'labelled' });
      const refused = { code: 'store.model_archived' };
      await expect(
        store.jobs.enqueue({ modelId: model.id, kind: 'rl', config: {}, dataKey: 'groups/2' }),
      ).rejects.toMatchObject(refused);
      await expect(store.jobs.retry(id, {})).rejects.toMatchObject(refused);
      await store.models.label(model.id, { isArchived: false });
      expect(await store.jobs.retry(id, {})).toMatchObject({ kind: 'queued' });
    });

    it('models are listed by entity and project', async () => {
      const names = ['a', 'b', 'c'];
      for (const name of names) await addModel(store, name, name === 'c' ? 'two' : 'one');
      const theirs = await addModel(store, 'a', 'one', 'other');
      const { id: entityId } = await store.keys.ensureEntity('local');
      expect((await store.models.list({ entityId })).items.map((model) => model.name)).toEqual(names);
      expect((await store.models.list({ entityId, project: 'one' })).items).toHaveLength(2);
      expect((await store.models.list({ limit: 1, order: 'desc' })).items).toEqual([theirs]);
      expect((await store.models.list({})).items).toHaveLength(4);
    });

    it('deleting a model ends its jobs with an event, frees its artifacts and its name', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await train(store, model.id, null); // shares the artifact of step 1
      const running = await addJob(store, model.id);
      const waiting = await addJob(store, model.id);
      const held = await claim(store);
      await store.trajectories.recordLog({
        modelId: model.id,
        split: 'val',
        blobKey: 'logs/1',
        numGroups: 1,
        numTrajectories: 1,
        numExceptions: 0,
        metrics: {},
      });

      const result = await store.models.delete(model.id);
      expect(result).toMatchObject({
        deletedCheckpoints: 3,
        deletedRun: true,
        directoryKeys: ['checkpoints/1'],
        digests: ['digest of checkpoints/1'],
        cancelledJobIds: [running.id, waiting.id],
      });
      expect(result?.blobKeys).toEqual(expect.arrayContaining([running.dataKey, waiting.dataKey, 'logs/1']));

      expect(await store.models.get(model.id)).toBeNull();
      expect(await store.models.delete(model.id)).toBeNull();
      expect((await store.checkpoints.list({ modelId: model.id })).items).toEqual([]);
      expect((await store.trajectories.listLogs({ modelId: model.id })).items).toEqual([]);
      for (const id of [running.id, waiting.id]) {
        expect(await eventTypes(store, id)).toEqual(['training_failed']);
        expect(await store.jobs.get(id)).toMatchObject({ status: 'cancelled', errorMessage: 'the model was deleted' });
      }
      const finish = store.jobs.succeed(held.id, held.fencingToken, {
        directoryKey: 'x',
        digest: 'x',
        metrics: {},
      });
      await expect(finish).rejects.toMatchObject({ code: 'store.lease_lost' });
      expect(await store.jobs.claim('worker-a', 1000)).toBeNull();

      const again = await addModel(store);
      expect(again.id).not.toBe(model.id);
      expect((await store.checkpoints.latest(again.id))?.step).toBe(0);
    });

    it('the remains of a deleted model go after a week', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const job = await addJob(store, model.id);
      await store.models.delete(model.id);
      clock.advance(WEEK_MS - 1);
      expect((await store.purgeExpired()).numModels).toBe(0);
      expect(await eventTypes(store, job.id)).toEqual(['training_failed']);
      clock.advance(2);
      expect((await store.purgeExpired()).numModels).toBe(1);
      expect(await store.jobs.listEvents({ jobId: job.id })).toBeNull();
    });

    it('deleting checkpoints counts each step once and frees an artifact with its last user', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await train(store, model.id, null);
      await train(store, model.id, 'checkpoints/3');
      expect(await store.checkpoints.delete(model.id, [1, 1, 9, -1, 9])).toEqual({
        deletedCount: 1,
        notFoundSteps: [9, -1],
        directoryKeys: [],
        digests: [],
      });
      expect(await store.checkpoints.delete(model.id, [0, 1, 2])).toEqual({
        deletedCount: 2,
        notFoundSteps: [1],
        directoryKeys: ['checkpoints/1'],
        digests: ['digest of checkpoints/1'],
      });
      expect(await store.checkpoints.delete(model.id, [])).toEqual({
        deletedCount: 0,
        notFoundSteps: [],
        directoryKeys: [],
        digests: [],
      });
      expect((await store.checkpoints.latest(model.id))?.step).toBe(3);
      expect(await store.checkpoints.get(model.id, 1)).toBeNull();
    });

    it('a step number is never used twice, and a model without checkpoints can be trained again', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await store.checkpoints.delete(model.id, [0, 1]);
      expect(await store.checkpoints.latest(model.id)).toBeNull();
      await train(store, model.id, null);
      expect(await store.checkpoints.latest(model.id)).toMatchObject({ step: 2, directoryKey: null, digest: null });
    });

    it('metrics are merged into a checkpoint', async () => {
      const model = await addModel(store);
      await store.checkpoints.mergeMetrics(model.id, 0, { a: 1, b: 2 });
      expect((await store.checkpoints.mergeMetrics(model.id, 0, { b: 3, c: 4 }))?.metrics).toEqual({
        a: 1,
        b: 3,
        c: 4,
      });
      expect((await store.checkpoints.get(model.id, 0))?.metrics).toEqual({ a: 1, b: 3, c: 4 });
      expect(await store.checkpoints.mergeMetrics(model.id, 7, { a: 1 })).toBeNull();
      await expect(store.checkpoints.mergeMetrics(model.id, 0, { a: Number.NaN })).rejects.toThrow('finite');
    });

    it('a log of a split replaces the last one of that split on the latest checkpoint, and nothing else', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1', { metrics: { 'train/policy_loss': 0.5 } });
      const counts = { numGroups: 2, numTrajectories: 8, numExceptions: 1 };
      const log = (split: string, metrics: Record<string, number>) =>
        store.trajectories.recordLog({ modelId: model.id, split, blobKey: `logs/${split}`, ...counts, metrics });
      await log('val', { 'val/reward': 0.1, 'val/old': 1 });
      await log('train', { 'train/reward': 0.7 });
      const recorded = await log('val', { 'val/reward': 0.2 });
      expect(recorded).toMatchObject({ step: 1, split: 'val', ...counts });
      const expected = { 'train/policy_loss': 0.5, 'train/reward': 0.7, 'val/reward': 0.2 };
      expect((await store.checkpoints.latest(model.id))?.metrics).toEqual(expected);
      expect((await store.checkpoints.get(model.id, 0))?.metrics).toEqual({});
      expect((await store.trajectories.listLogs({ modelId: model.id, split: 'val' })).items).toHaveLength(2);

      await train(store, model.id, 'checkpoints/2');
      await log('val', { 'val/reward': 0.9 });
      expect((await store.checkpoints.get(model.id, 1))?.metrics).toEqual(expected);
      expect((await store.checkpoints.get(model.id, 2))?.metrics).toEqual({ 'val/reward': 0.9 });
    });
  });
}
