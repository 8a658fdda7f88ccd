import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ClaimedJob, ExportJob } from '../parts/jobs/jobs.ts';
import type { ModelExport } from '../parts/transfers/exports.ts';
import type { Store } from '../parts/store.ts';
import {
  addModel,
  claimExport,
  importAdapter,
  LORA,
  type MakeHarness,
  ManualClock,
  type StoreHarness,
  train,
} from './harness.ts';

const WEEK_MS = 7 * 24 * 3600 * 1000;
const FILES = [{ name: 'model.gguf', sizeBytes: 7, sha256: 'ab' }];

export function transferSuite(makeHarness: MakeHarness): void {
  let harness: StoreHarness;
  let store: Store;
  const clock = new ManualClock();
  beforeEach(async () => {
    harness = await makeHarness();
    store = await harness.open({ clock: clock.read });
  });
  afterEach(() => harness.destroy());

  async function queued(modelId: string, step: number): Promise<ModelExport> {
    const created = await store.exports.create({ modelId, step, format: 'merged-gguf', dtype: 'f16' });
    if (created === null) throw new Error('no such checkpoint');
    return created;
  }

  const claimed = (): Promise<ClaimedJob<ExportJob>> => claimExport(store);
  const next = () => store.jobs.claim(store.instanceId, 60_000, ['export']);
  const lost = { code: 'store.lease_lost' };

  const done = (directoryKey: string) => ({ directoryKey, files: FILES, parity: { meanDifference: 0.001 } });

  describe('exports', () => {
    it('are taken in order of creation and end once', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const first = await queued(model.id, 1);
      const second = await queued(model.id, 0);
      expect(first).toMatchObject({
        modelId: model.id,
        entityId: model.entityId,
        step: 1,
        format: 'merged-gguf',
        dtype: 'f16',
        status: 'queued',
        sourceDirectoryKey: 'checkpoints/1',
        sourceDigest: 'digest of checkpoints/1',
        directoryKey: null,
        files: [],
        parity: null,
      });
      expect(second).toMatchObject({ step: 0, sourceDirectoryKey: null, sourceDigest: null });
      const running = await claimed();
      expect(running).toMatchObject({
        id: first.id,
        status: 'running',
        numAttempts: 1,
        start: { step: 1, directoryKey: 'checkpoints/1', digest: 'digest of checkpoints/1' },
      });
      expect((await store.exports.get(first.id))?.status).toBe('running');
      const finished = await store.exports.finish(running.id, running.fencingToken, done('exports/1'));
      expect(finished).toMatchObject({
        export: { status: 'succeeded', directoryKey: 'exports/1', files: FILES, parity: { meanDifference: 0.001 } },
        directoryKeys: [],
      });
      const late = store.exports.finish(running.id, running.fencingToken, done('exports/2'));
      await expect(late).rejects.toMatchObject(lost);

      const other = await claimed();
      expect(other.id).toBe(second.id);
      await store.jobs.fail(other.id, other.fencingToken, 'the disk is full');
      const failed = await store.exports.get(other.id);
      expect(failed).toMatchObject({ status: 'failed', errorMessage: 'the disk is full', directoryKey: null });
      expect(await next()).toBeNull();
      expect((await store.exports.list({ modelId: model.id })).items.map(({ id }) => id)).toEqual([
        first.id,
        second.id,
      ]);
    });

    it('of an unknown model or step are not made', async () => {
      const model = await addModel(store);
      const input = { step: 3, format: 'peft', dtype: 'f16' };
      expect(await store.exports.create({ ...input, modelId: model.id })).toBeNull();
      expect(await store.exports.create({ ...input, modelId: 'unknown', step: 0 })).toBeNull();
      await store.models.delete(model.id);
      expect(await store.exports.create({ ...input, modelId: model.id, step: 0 })).toBeNull();
    });

    it('keep their source until they end, and their files until they are deleted', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const { id } = await queued(model.id, 1);
      expect((await store.checkpoints.delete(model.id, [1])).directoryKeys).toEqual([]);
      expect((await store.files.listReferenced()).directoryKeys).toEqual(['checkpoints/1']);
      const { fencingToken } = await claimed();
      expect((await store.exports.finish(id, fencingToken, done('exports/1'))).directoryKeys).toEqual([
        'checkpoints/1',
      ]);
      expect((await store.files.listReferenced()).directoryKeys).toEqual(['exports/1']);
      expect(await store.exports.delete(id)).toEqual({ directoryKeys: ['exports/1'] });
      expect(await store.exports.delete(id)).toBeNull();
      expect(await store.exports.get(id)).toBeNull();
      expect((await store.files.listReferenced()).directoryKeys).toEqual([]);
    });

    it('that are deleted while they run have no end', async () => {
      const model = await addModel(store);
      const { id } = await queued(model.id, 0);
      const { fencingToken } = await claimed();
      await store.exports.delete(id);
      await expect(store.exports.finish(id, fencingToken, done('exports/1'))).rejects.toMatchObject(lost);
      expect(await store.jobs.get(id)).toMatchObject({ status: 'cancelled', errorMessage: 'the export was deleted' });
      expect((await store.exports.list({ modelId: model.id })).items).toEqual([]);
      // A cursor continues to work.
      expect(await store.exports.list({ modelId: model.id, after: id })).toEqual({ items: [], hasMore: false });
    });

    it('go with their model, and with its remains after a week', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const ended = await queued(model.id, 1);
      await store.exports.finish(ended.id, (await claimed()).fencingToken, done('exports/1'));
      const running = await queued(model.id, 1);
      const { fencingToken } = await claimed();
      expect((await store.models.delete(model.id))?.directoryKeys.toSorted()).toEqual(['checkpoints/1', 'exports/1']);
      expect(await store.exports.get(ended.id)).toBeNull();
      await expect(store.exports.finish(running.id, fencingToken, done('exports/2'))).rejects.toMatchObject(lost);
      expect(await next()).toBeNull();
      clock.advance(WEEK_MS + 1);
      expect((await store.purgeExpired()).numModels).toBe(1);
    });

    it('run again after a restart, and the earlier claim is invalid', async () => {
      const model = await addModel(store);
      const { id } = await queued(model.id, 0);
      const before = await claimed();
      await store.recoverAfterRestart();
      const end = (fencingToken: number) => store.exports.finish(id, fencingToken, done('exports/1'));
      await expect(end(before.fencingToken)).rejects.toMatchObject(lost);
      const again = await claimed();
      expect(again).toMatchObject({ id, numAttempts: 2 });
      await expect(end(before.fencingToken)).rejects.toMatchObject(lost);
      await store.jobs.release(id, again.fencingToken);
      const last = await claimed();
      expect(last).toMatchObject({ id, numAttempts: 2 });
      await expect(end(again.fencingToken)).rejects.toMatchObject(lost);
      expect((await end(last.fencingToken)).export.status).toBe('succeeded');
    });
  });

  describe('adapters', () => {
    const keys = { configKey: 'uploads/1/config', weightsKey: 'uploads/1/weights' };
    const content = { lora: LORA, directoryKey: 'adapters/1', digest: 'd'.repeat(64) };

    it('are uploads first, and committed once', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const upload = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      expect(upload).toMatchObject({ entityId, baseModel: 'base', upload: keys, content: null, committedAt: null });
      expect((await store.files.listReferenced()).blobKeys.toSorted()).toEqual(Object.values(keys));
      const committed = await importAdapter(store, upload.id, content);
      expect(committed).toMatchObject({ adapter: { upload: null, content }, blobKeys: Object.values(keys) });
      expect(await store.adapters.get(upload.id)).toEqual(committed?.adapter);
      expect(await store.adapters.enqueueImport(upload.id)).toBeNull();
      expect(await store.files.listReferenced()).toEqual({ directoryKeys: ['adapters/1'], blobKeys: [] });
      expect((await store.adapters.list({ entityId })).items).toEqual([committed?.adapter]);
    });

    it('that are deleted leave nothing, or a directory that a checkpoint shares', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const first = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      expect(await store.adapters.delete(first.id)).toEqual({
        directoryKeys: [],
        digests: [],
        blobKeys: Object.values(keys),
      });
      expect(await store.adapters.delete(first.id)).toBeNull();
      expect(await store.adapters.enqueueImport(first.id)).toBeNull();

      const second = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      await importAdapter(store, second.id, content);
      const model = await addModel(store);
      await train(store, model.id, content.directoryKey);
      expect(await store.adapters.delete(second.id)).toEqual({
        directoryKeys: [],
        digests: [content.digest],
        blobKeys: [],
      });
      expect((await store.models.delete(model.id))?.directoryKeys).toEqual([content.directoryKey]);

      const third = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      await importAdapter(store, third.id, content);
      const fourth = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      await importAdapter(store, fourth.id, { ...content, directoryKey: 'adapters/2' });
      const shared = { directoryKeys: [content.directoryKey], digests: [], blobKeys: [] };
      expect(await store.adapters.delete(third.id), 'the same weights, imported twice').toEqual(shared);
      const last = { directoryKeys: ['adapters/2'], digests: [content.digest], blobKeys: [] };
      expect(await store.adapters.delete(fourth.id)).toEqual(last);
    });

    it('are imported by one job, however often they are committed, which ends when they are deleted', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const upload = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      const job = await store.adapters.enqueueImport(upload.id);
      expect(job).toMatchObject({ kind: 'import', turn: upload.id, modelId: null, dataKey: null, entityId });
      const held = await store.jobs.claim(store.instanceId, 60_000, ['import']);
      expect((await store.adapters.enqueueImport(upload.id))?.id).toBe(job?.id);
      await store.jobs.fail(held!.id, held!.fencingToken, 'no adapter');
      const again = await store.adapters.enqueueImport(upload.id);
      expect(again?.id).not.toBe(job?.id);
      await store.adapters.delete(upload.id);
      expect(await store.jobs.get(again!.id)).toMatchObject({ status: 'cancelled' });
      expect(await store.jobs.claim(store.instanceId, 60_000, ['import'])).toBeNull();
    });

    it('that were never committed can be expired', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const old = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      clock.advance(1000);
      const young = await store.adapters.create({ entityId, baseModel: 'base', configKey: 'c', weightsKey: 'w' });
      expect(await store.adapters.expireUploads(entityId, clock.nowMs)).toEqual({
        directoryKeys: [],
        digests: [],
        blobKeys: Object.values(keys),
      });
      expect(await store.adapters.get(old.id)).toBeNull();
      expect(await store.adapters.get(young.id)).toEqual(young);
      const { id: otherId } = await store.keys.ensureEntity('other');
      expect((await store.adapters.list({ entityId: otherId })).items).toEqual([]);
    });
  });
}
