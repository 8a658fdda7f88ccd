import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { takeCensus } from '../blobs/orphans.ts';
import { checkOwnBlobs } from '../blobs/own-blobs.ts';
import type { IdempotentAnswer } from '../parts/idempotency/idempotency.ts';
import type { Store } from '../parts/store.ts';
import { addJob, addModel, claim, claimExport, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 3600 * 1000;

/** Two handles on one database, as two services that share it. */
export function severalProcessesSuite(makeHarness: MakeHarness): void {
  describe('shared by two processes', () => {
    let harness: StoreHarness;
    let clock: ManualClock;
    let one: Store;
    let two: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      one = await harness.open({ clock: clock.read, instanceId: 'one' });
      two = await harness.open({ clock: clock.read, instanceId: 'two' });
    });
    afterEach(() => harness.destroy());

    it("a start recovers the remains of the previous run on the same folder, and none of another's", async () => {
      const models = [await addModel(one, 'a'), await addModel(one, 'b')];
      for (const model of models) await addJob(one, model.id);
      const [mine, theirs] = [await claim(one), await claim(two)];
      const exports = [];
      for (const [index, store] of [one, two].entries()) {
        await store.exports.create({ modelId: models[index]!.id, step: 0, format: 'peft', dtype: 'f32' });
        exports.push(await claimExport(store, MINUTE_MS));
      }
      const request = (key: string) => ({ keyId: 'k', key, requestHash: 'h' });
      await one.idempotency.begin(request('one'));
      await two.idempotency.begin(request('two'));

      expect(await two.recoverAfterRestart()).toEqual({ numJobs: 2, numRequests: 1 });
      await one.jobs.renew(mine.id, mine.fencingToken, MINUTE_MS);
      await one.jobs.renew(exports[0]!.id, exports[0]!.fencingToken, MINUTE_MS);
      expect((await one.idempotency.begin(request('one'))).kind).toBe('in_progress');
      await expect(two.jobs.renew(theirs.id, theirs.fencingToken, MINUTE_MS)).rejects.toMatchObject({
        code: 'store.lease_lost',
      });
      expect((await two.idempotency.begin(request('two'))).kind).toBe('started');
      expect((await claimExport(two, MINUTE_MS)).id).toBe(exports[1]!.id);
    });

    it('limits are those of all processes together, also at the same time', async () => {
      const { id: modelId, entityId } = await addModel(one);
      const uploads = (index: number) => ({ configKey: `uploads/${index}/c`, weightsKey: `uploads/${index}/w` });
      const attempts: Record<string, (store: Store, index: number) => Promise<unknown>> = {
        'training jobs of a model': (store, index) =>
          store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${index}`, maxLive: 5 }),
        'exports of a model': (store) =>
          store.exports.create({ modelId, step: 0, format: 'peft', dtype: 'f32', maxLive: 5 }),
        'uploads of an entity': (store, index) =>
          store.adapters.create({ entityId, baseModel: 'base', ...uploads(index), maxOpen: 5 }),
      };
      for (const [what, attempt] of Object.entries(attempts)) {
        const tried = Array.from({ length: 12 }, (_, index) => attempt(index % 2 === 0 ? one : two, index));
        const outcomes = (await Promise.allSettled(tried)).map((outcome) =>
          outcome.status === 'fulfilled' ? 'taken' : (outcome.reason as { code: string }).code,
        );
        expect(outcomes.toSorted(), what).toEqual([
          ...Array.from({ length: 7 }, () => 'store.queue_full'),
          ...Array.from({ length: 5 }, () => 'taken'),
        ]);
      }
    });

    it('a request of a process that died is started by the next to get it, and one that was only stopped has no effect then', async () => {
      const request = { keyId: 'k', key: 'once', requestHash: 'h' };
      const answer = { keyId: 'k', key: 'once', status: 200, body: '{}' };
      const model = await addModel(one);
      const enqueue = (store: Store) =>
        store.jobs.enqueue({ modelId: model.id, kind: 'rl', config: {}, dataKey: 'groups/x', completes: answer });
      await one.idempotency.begin(request);
      clock.advance(MINUTE_MS - 1);
      expect((await two.idempotency.begin(request)).kind).toBe('in_progress');
      clock.advance(1);
      // The process that works on it knows that.
      expect((await one.idempotency.begin(request)).kind).toBe('in_progress');
      expect((await two.idempotency.begin(request)).kind).toBe('started');
      await expect(enqueue(one)).rejects.toMatchObject({ code: 'store.busy' });
      await enqueue(two);
      await expect(enqueue(one)).rejects.toMatchObject({ code: 'store.busy' });
      expect((await one.idempotency.begin(request)).kind).toBe('completed');
      expect((await one.jobs.list({ modelId: model.id })).items).toHaveLength(1);
    });

    it('holding and releasing a job takes effect from any process', async () => {
      const model = await addModel(one);
      const acts = {
        pause: (store: Store, id: string, completes: () => IdempotentAnswer) => store.jobs.pause(id, completes),
        resume: (store: Store, id: string, completes: () => IdempotentAnswer) => store.jobs.resume(id, completes),
        cancel: (store: Store, id: string, completes: () => IdempotentAnswer) =>
          store.jobs.cancel(id, 'enough', completes),
      };
      for (const [name, act] of Object.entries(acts)) {
        const { id } = await addJob(one, model.id);
        if (name === 'resume') await one.jobs.pause(id);
        const answer = { keyId: 'k', key: name, status: 200, body: '{}' };
        const begin = (store: Store) => store.idempotency.begin({ keyId: 'k', key: name, requestHash: 'h' });
        await begin(one);
        clock.advance(MINUTE_MS);
        expect((await begin(two)).kind, name).toBe('started');
        await expect(
          act(one, id, () => answer),
          name,
        ).rejects.toMatchObject({ code: 'store.busy' });
        expect(await one.jobs.get(id), name).toMatchObject({
          status: 'queued',
          pausedAt: name === 'resume' ? expect.any(Number) : null,
        });
        await act(two, id, () => answer);
        expect(await begin(one), name).toMatchObject({ kind: 'completed' });
        await one.jobs.cancel(id, 'over');
      }
    });

    it('a file that one process is about to name is no orphan to the other, until its process has died', async () => {
      const directory = await mkdtemp(join(tmpdir(), 'trainyard-orphans-'));
      const blobs = await FolderBlobs.open(directory);
      await checkOwnBlobs(one, blobs);
      const model = await addModel(one);
      await addJob(one, model.id);
      const job = await claim(one);
      const orphans = async (store: Store) => {
        await store.files.learnNamed();
        return (await takeCensus(store, blobs)).orphans.map(({ key }) => key).toSorted();
      };
      for (const key of ['checkpoints/new', 'checkpoints/left', 'logs/new']) await one.files.announce(key);
      for (const key of ['checkpoints/new', 'checkpoints/left', 'checkpoints/nobodys'])
        await blobs.commitDirectory(await blobs.stageDirectory(), key);
      for (const key of ['logs/new', 'logs/nobodys']) await blobs.putJson(key, 1);

      expect((await takeCensus(two, blobs)).unknown.map(({ key }) => key).toSorted()).toEqual([
        'checkpoints/nobodys',
        'logs/nobodys',
      ]);
      expect(await orphans(two)).toEqual([]);
      const outcome = { directoryKey: 'checkpoints/new', digest: 'd', metrics: {} };
      await one.jobs.succeed(job.id, job.fencingToken, outcome);
      const counts = { numGroups: 1, numTrajectories: 1, numExceptions: 0 };
      await one.trajectories.recordLog({
        modelId: model.id,
        split: 'val',
        blobKey: 'logs/new',
        ...counts,
        metrics: {},
      });
      expect([await one.files.isNamed('checkpoints/new'), await one.files.isNamed('checkpoints/left')]).toEqual([
        true,
        false,
      ]);
      expect(await orphans(two)).toEqual([]);

      await blobs.commitDirectory(await blobs.stageDirectory(), 'checkpoints/late');
      await two.files.announce('checkpoints/late');
      await one.recoverAfterRestart();
      expect(await orphans(one)).toEqual(['checkpoints/left']);
      await addJob(two, model.id);
      clock.advance(DAY_MS + 1);
      const running = await claim(two);
      expect(await orphans(one)).toEqual(['checkpoints/left']);
      await two.jobs.fail(running.id, running.fencingToken, 'no');
      expect(await orphans(one)).toEqual(['checkpoints/late', 'checkpoints/left']);
      await blobs.close();
      await rm(directory, { recursive: true });
    });

    it('a record of a choice is found by the other as soon as its id is known, and usage when it is recorded', async () => {
      const model = await addModel(one);
      const record = {
        answerId: 'answer',
        choiceIndex: 0,
        entityId: model.entityId,
        modelId: model.id,
        step: 1,
        digest: null,
        promptTokenIds: Int32Array.of(1),
        tokenIds: Int32Array.of(2),
        logprobs: Float32Array.of(-1),
      };
      const id = await one.choiceRecords.add(record);
      expect((await two.choiceRecords.find(model.entityId, [id])).get(id)).toMatchObject(record);
      const usage = { keyId: 'k', entityId: 'e', project: null, model: 'm', kind: 'chat' as const };
      await Promise.all(
        [1, 2, 3].map((promptTokens) => one.usage.record({ ...usage, promptTokens, completionTokens: 1 })),
      );
      expect(await two.usage.sum({})).toMatchObject([{ numRequests: 3, promptTokens: 6, completionTokens: 3 }]);
      await two.usage.record({ ...usage, promptTokens: 4, completionTokens: 1 });
      await one.usage.record({ ...usage, promptTokens: 5, completionTokens: 1 });
      expect(await two.usage.sum({})).toMatchObject([{ numRequests: 5, promptTokens: 15, completionTokens: 5 }]);
    });

    it('usage of one second is one row for each key, project, model and kind of a process', async () => {
      const usage = { keyId: 'k', entityId: 'e', project: null, model: 'm', kind: 'chat' as const };
      for (const store of [one, two])
        for (let time = 0; time < 4; time++) {
          await store.usage.record({ ...usage, promptTokens: 1, completionTokens: 1 });
          clock.advance(300);
        }
      await one.usage.record({ ...usage, promptTokens: 1, completionTokens: 1 });
      expect(await one.usage.sum({})).toMatchObject([{ numRequests: 9, promptTokens: 9 }]);
      expect(await two.usage.merge(clock.read() + DAY_MS, 100)).toBe(3);
      await one.usage.record({ ...usage, promptTokens: 1, completionTokens: 1 });
      expect(await two.usage.sum({})).toMatchObject([{ numRequests: 10, promptTokens: 10 }]);
    });

    it('who holds a job sees at once that the other cancelled or paused it', async () => {
      const model = await addModel(one);
      const [first, second] = [await addJob(one, model.id), await addJob(one, model.id)];
      const isHeld = async ({ id, fencingToken }: { id: string; fencingToken: number }) =>
        (await one.jobs.get(id))?.lease?.fencingToken === fencingToken;
      const paused = await claim(one);
      expect([paused.id, await isHeld(paused)]).toEqual([first.id, true]);
      await two.jobs.pause(first.id);
      expect(await isHeld(paused)).toBe(false);
      await two.jobs.cancel(first.id, 'enough');
      const cancelled = await claim(one);
      expect([cancelled.id, await isHeld(cancelled)]).toEqual([second.id, true]);
      await two.jobs.cancel(second.id, 'enough');
      expect(await isHeld(cancelled)).toBe(false);
    });
  });
}
