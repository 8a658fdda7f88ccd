import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OrphanRules, sweepOrphans, takeCensus } from '../blobs/orphans.ts';
import { checkOwnBlobs, dropOtherMarks, placeKey } from '../blobs/own-blobs.ts';
import type { Blobs } from '../contract/blobs.ts';
import type { Store } from '../parts/store.ts';
import type { BlobsHarness } from './blobs.suite.ts';
import { addModel, type MakeHarness, ManualClock, type StoreHarness, train } from './harness.ts';

const DAY_MS = 24 * 3600 * 1000;
const RULES: OrphanRules = { which: 'known', ageMs: 7 * DAY_MS, binMs: 7 * DAY_MS, share: 1 };
const REFUSED = { code: 'store.unavailable' };

/** Lost, older and wrong databases with blobs that have content: nothing is removed. */
export function blobSafetySuite(makeStores: MakeHarness, makeBlobs: () => Promise<BlobsHarness>): void {
  describe('blobs outlive databases', () => {
    let harness: StoreHarness;
    let other: StoreHarness;
    let place: BlobsHarness;
    let clock: ManualClock;
    let store: Store;
    let blobs: Blobs;
    let logged: string[];
    beforeEach(async () => {
      [harness, other, place] = [await makeStores(), await makeStores(), await makeBlobs()];
      clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
      blobs = await place.open();
      logged = [];
      await checkOwnBlobs(store, blobs);
    });
    afterEach(async () => {
      await Promise.all([harness.destroy(), other.destroy(), place.destroy()]);
    });

    const content = async () => [...(await blobs.listDirectories()), ...(await blobs.listKeys())].toSorted();
    const sweep = (rules: Partial<OrphanRules> = {}, at: Store = store) =>
      sweepOrphans(at, blobs, { ...RULES, ...rules }, (line) => logged.push(line));
    const commit = async (key: string) => await blobs.commitDirectory(await blobs.stageDirectory(), key);
    /** Leaves a blob as after a crash: announced, written, never named. */
    const leave = async (key: string) => {
      await store.files.announce(key);
      await blobs.putJson(key, 1);
      await store.recoverAfterRestart();
    };
    const trained = async (key: string) => {
      const model = await addModel(store);
      await commit(key);
      await train(store, model.id, key);
      return model;
    };

    it('an empty database claims nothing that has content, with a mark or without one', async () => {
      await trained('checkpoints/1');
      const before = await content();
      const empty = await other.open({ clock: clock.read });
      await expect(checkOwnBlobs(empty, blobs)).rejects.toMatchObject(REFUSED);
      await blobs.remove(placeKey((await store.files.blobsId())!));
      await expect(checkOwnBlobs(empty, blobs)).rejects.toThrow(/trainyard restore.*--adopt-blobs/);
      expect(await empty.files.blobsId()).toBeNull();
      expect(await content()).toEqual(before.filter((key) => !key.startsWith('places/')));
    });

    it('blobs of another database are refused by both, however the other came there, until one adopts them', async () => {
      const empty = await other.open({ clock: clock.read });
      await empty.files.claimBlobs('another');
      await expect(checkOwnBlobs(empty, blobs)).rejects.toThrow(/belongs to another service .*--adopt-blobs/);
      await blobs.putJson(placeKey('another'), {});
      await expect(checkOwnBlobs(store, blobs)).rejects.toMatchObject(REFUSED);
      await leave('groups/left');
      clock.advance(8 * DAY_MS);
      expect((await sweep()).withheld).toMatch('another service has claimed the blobs');
      expect(await content()).toContain('groups/left');
      await checkOwnBlobs(empty, blobs, { adopts: true });
      await dropOtherMarks(empty, blobs);
      await checkOwnBlobs(empty, blobs);
      await expect(checkOwnBlobs(store, blobs)).rejects.toMatchObject(REFUSED);
      expect((await sweep()).withheld).toMatch('another service has claimed the blobs');
    });

    it('blobs without content are claimed once, and a claim that a crash cut off is finished', async () => {
      const [next, elsewhere] = [await place.open(), await makeBlobs()];
      await checkOwnBlobs(store, next);
      await blobs.remove(placeKey((await store.files.blobsId())!));
      await checkOwnBlobs(store, blobs);
      expect(await content()).toEqual([placeKey((await store.files.blobsId())!)]);
      await trained('checkpoints/1');
      await expect(checkOwnBlobs(store, await elsewhere.open())).rejects.toThrow(/do not belong to this database/);
      await elsewhere.destroy();
    });

    it('blobs from before there were marks are claimed by the database that names them', async () => {
      const old = await other.open({ clock: clock.read });
      const elsewhere = await makeBlobs();
      const place2 = await elsewhere.open();
      const model = await addModel(old);
      await place2.commitDirectory(await place2.stageDirectory(), 'checkpoints/old');
      await expect(checkOwnBlobs(old, place2)).rejects.toMatchObject(REFUSED);
      await train(old, model.id, 'checkpoints/old');
      await checkOwnBlobs(old, place2);
      expect(await place2.listKeys('places/')).toEqual([placeKey((await old.files.blobsId())!)]);
      await elsewhere.destroy();
    });

    it('an orphan goes to the bin after its age, and from there after the age of the bin, each with a line', async () => {
      await trained('checkpoints/1');
      await leave('groups/left');
      await store.files.announce('checkpoints/left');
      await commit('checkpoints/left');
      await store.recoverAfterRestart();
      const before = await content();
      expect(await sweep()).toMatchObject({ numBlobs: 3, numNamed: 1, numBinned: 0, withheld: null });
      clock.advance(7 * DAY_MS - 1);
      expect(await sweep()).toMatchObject({ numBinned: 0 });
      expect(await content()).toEqual(before);
      clock.advance(1);
      expect(await sweep()).toMatchObject({ numBinned: 2 });
      expect(logged.toSorted()).toEqual([
        expect.stringMatching(/^Moved orphan checkpoints\/left to the bin: unreferenced since 2026-01-01/),
        expect.stringMatching(/^Moved orphan groups\/left to the bin/),
      ]);
      expect(await content()).toEqual(before.filter((key) => !key.endsWith('/left')));
      expect(await blobs.listBin()).toHaveLength(2);
      clock.advance(7 * DAY_MS - 1);
      expect(await sweep()).toMatchObject({ numRemoved: 0 });
      clock.advance(1);
      expect(await sweep()).toMatchObject({ numRemoved: 2 });
      expect(logged).toHaveLength(4);
      expect(await blobs.listBin()).toEqual([]);
      const known = (await store.files.listKnown()).map(({ key }) => key);
      expect([known.includes('checkpoints/1'), known.filter((key) => key.endsWith('/left'))]).toEqual([true, []]);
    });

    it('of more orphans than the share none goes, and the flag lets them', async () => {
      for (const name of ['a', 'b', 'c']) await leave(`groups/${name}`);
      await trained('checkpoints/1');
      await sweep();
      clock.advance(8 * DAY_MS);
      const withheld = await sweep({ share: 0.5 });
      expect(withheld).toMatchObject({
        numBinned: 0,
        withheld: expect.stringMatching(/3 of 4 blobs are orphans.*--orphan-share 1/),
      });
      expect(await sweep({ which: 'none' })).toMatchObject({ numBinned: 0, withheld: null });
      expect(await sweep({ share: 0.75 })).toMatchObject({ numBinned: 3, withheld: null });
    });

    it('blobs unknown to an older database stay, and those it names return from the bin', async () => {
      const model = await trained('checkpoints/1');
      // The older database: before the second step, and before the first was deleted.
      const older = await other.open({ clock: clock.read });
      await older.files.claimBlobs((await store.files.blobsId())!);
      await train(older, (await addModel(older)).id, 'checkpoints/1');
      await commit('checkpoints/2');
      await train(store, model.id, 'checkpoints/2');
      await sweep();
      await store.checkpoints.delete(model.id, [1]);
      await sweep();
      clock.advance(8 * DAY_MS);
      await sweep();
      expect(await blobs.listDirectories()).toEqual(['checkpoints/2']);

      await checkOwnBlobs(older, blobs);
      for (let week = 0; week < 4; week++) {
        const report = await sweep({}, older);
        expect(report).toMatchObject({ unknown: [{ kind: 'directory', key: 'checkpoints/2' }], numBinned: 0 });
        clock.advance(7 * DAY_MS);
      }
      expect((await blobs.listDirectories()).toSorted()).toEqual(['checkpoints/1', 'checkpoints/2']);
      expect(logged).toContain('Moved checkpoints/1 back from the bin: the database references it.');

      // No other blob is removed meanwhile: an apparent orphan may have got its row later.
      await older.files.announce('checkpoints/3');
      await commit('checkpoints/3');
      await older.recoverAfterRestart();
      await sweep({}, older);
      clock.advance(8 * DAY_MS);
      expect(await sweep({}, older)).toMatchObject({
        numBinned: 0,
        withheld: expect.stringMatching(/1 orphans are kept/),
      });
      await blobs.removeDirectory('checkpoints/3');

      // Unless requested, and then by the same ages.
      expect(await sweep({ which: 'all' }, older)).toMatchObject({ numBinned: 0 });
      clock.advance(7 * DAY_MS);
      expect(await sweep({ which: 'all' }, older)).toMatchObject({ numBinned: 1 });
    });

    it('a file whose removal failed is an orphan, even if it was never announced', async () => {
      const model = await trained('checkpoints/1');
      await sweep();
      await store.models.delete(model.id);
      expect((await takeCensus(store, blobs)).orphans).toMatchObject([{ key: 'checkpoints/1' }]);
    });

    it('a checkpoint that only the blobs know gets its row, its step and its model back', async () => {
      const empty = await other.open({ clock: clock.read });
      const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 3 };
      const model = { entity: 'local', project: 'p', name: 'm', modelId: 'id-of-the-model', baseModel: 'base', lora };
      const step = (number: number) => ({
        ...model,
        warmStart: { source: 'an import', directoryKey: 'adapters/1', digest: 'd0' },
        step: number,
        directoryKey: `checkpoints/${number}`,
        digest: `d${number}`,
        metrics: { 'train/policy_loss': number },
        rolloutMetrics: { 'train/reward': number },
        createdAt: 1000 * number,
      });
      expect(await empty.models.adopt(step(3))).toMatchObject({ kind: 'adopted' });
      expect(await empty.models.adopt(step(1))).toMatchObject({ kind: 'adopted' });
      expect(await empty.models.adopt({ ...step(3), directoryKey: 'checkpoints/x' })).toMatchObject({
        kind: 'taken',
      });
      expect(await empty.models.find('local', 'p', 'm')).toMatchObject({
        id: 'id-of-the-model',
        nextStep: 4,
        lora,
        warmStart: { source: 'an import', directoryKey: 'adapters/1' },
      });
      const { items } = await empty.checkpoints.list({ modelId: 'id-of-the-model', limit: 10 });
      expect(items.map(({ step: number, digest }) => [number, digest])).toEqual([
        [0, 'd0'],
        [1, 'd1'],
        [3, 'd3'],
      ]);
      const names = ['train/policy_loss', 'train/reward'];
      const series = await empty.runs.readSeries({ modelId: 'id-of-the-model', names, axis: 'step', maxPoints: 10 });
      expect(series.map(({ points }) => points.map(({ first }) => first))).toEqual([
        [1, 3],
        [0, 2],
      ]);
      await empty.models.delete('id-of-the-model');
      expect(await empty.models.adopt(step(2))).toEqual({ kind: 'taken', model: null });
      // Its name is free again; a different model's name is not replaced.
      await addModel(empty, 'm', 'p');
      const fresh = { ...step(2), modelId: 'another-model', warmStart: null };
      expect(await empty.models.adopt(fresh)).toMatchObject({ model: { name: 'm-another-' } });
      expect((await empty.checkpoints.latest('another-model'))?.step).toBe(2);
    });
  });
}
