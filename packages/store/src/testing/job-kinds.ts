import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ClaimedJob, Job, JobKind } from '../parts/jobs/jobs.ts';
import type { Model } from '../parts/models/models.ts';
import type { Store } from '../parts/store.ts';
import { addModel, LORA, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const LEASE_MS = 60_000;
const DATA_KEYS = { rl: 'groups/1', sft: 'sft/1' } as const;

/** A kind of job, as the suite drives it. */
interface KindUnderTest {
  readonly kind: JobKind;
  /** Queues a job that no other job waits for. @throws {StoreError} `store.queue_full` */
  enqueue(store: Store, options?: { maxLive?: number }): Promise<Job>;
  /** Ends it successfully. @throws {StoreError} `store.lease_lost` */
  succeed(store: Store, claimed: Pick<ClaimedJob<Job>, 'id' | 'fencingToken'>): Promise<unknown>;
  /** Types of its terminal events. */
  readonly ends: { succeeded: string; failed: string };
}

let number = 0;

async function theModel(store: Store): Promise<Model> {
  const { id: entityId } = await store.keys.ensureEntity('local');
  const result = await store.models.create({ entityId, project: 'demo', name: 'one', baseModel: 'base', lora: LORA });
  if (result.kind === 'warm_start_missing') throw new Error('no model was made');
  return result.model;
}

const TRAINING_ENDS = { succeeded: 'training_ended', failed: 'training_failed' };
const OTHER_ENDS = { succeeded: 'job_ended', failed: 'job_failed' };

function training(kind: 'rl' | 'sft'): KindUnderTest {
  return {
    kind,
    async enqueue(store, options = {}) {
      // A limit counts the jobs of one model, so they share it.
      const model = options.maxLive === undefined ? await addModel(store, `model-${number++}`) : await theModel(store);
      const job = await store.jobs.enqueue({
        modelId: model.id,
        kind,
        config: {},
        dataKey: DATA_KEYS[kind],
        ...options,
      });
      return made(job);
    },
    succeed: (store, { id, fencingToken }) =>
      store.jobs.succeed(id, fencingToken, { directoryKey: null, digest: null, metrics: {} }),
    ends: TRAINING_ENDS,
  };
}

const KINDS: readonly KindUnderTest[] = [
  training('rl'),
  training('sft'),
  {
    kind: 'export',
    async enqueue(store, options = {}) {
      const { id: modelId } = await theModel(store);
      const created = await store.exports.create({ modelId, step: 0, format: 'peft', dtype: 'f32', ...options });
      return made(await store.jobs.get(made(created).id));
    },
    succeed: (store, { id, fencingToken }) =>
      store.exports.finish(id, fencingToken, { directoryKey: `exports/${number++}`, files: [], parity: {} }),
    ends: OTHER_ENDS,
  },
  {
    kind: 'import',
    async enqueue(store, options = {}) {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const keys = { configKey: `uploads/${number}/config`, weightsKey: `uploads/${number++}/weights` };
      const { id } = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
      return made(await store.adapters.enqueueImport(id, options));
    },
    succeed: (store, { id, fencingToken }) =>
      store.adapters.finishImport(id, fencingToken, { lora: LORA, directoryKey: `adapters/${number++}`, digest: 'd' }),
    ends: OTHER_ENDS,
  },
  {
    kind: 'pull',
    async enqueue(store, options = {}) {
      const { id: entityId } = await store.keys.ensureEntity('local');
      return await store.pulls.enqueue({ entityId, baseModel: `org/model-${number++}`, ...options });
    },
    succeed: (store, { id, fencingToken }) => store.pulls.finish(id, fencingToken),
    ends: OTHER_ENDS,
  },
];

/** Behaviour common to every kind of job in the shared queue. A new kind is one more line above. */
export function jobKindSuite(makeHarness: MakeHarness): void {
  describe.each(KINDS)('a job of the kind $kind', (tested) => {
    let harness: StoreHarness;
    let one: Store;
    let two: Store;
    const clock = new ManualClock();
    beforeEach(async () => {
      harness = await makeHarness();
      one = await harness.open({ clock: clock.read, instanceId: 'one' });
      two = await harness.open({ clock: clock.read, instanceId: 'two' });
    });
    afterEach(() => harness.destroy());

    const next = (store: Store) => store.jobs.claim(store.instanceId, LEASE_MS, [tested.kind]);
    const claimed = async (store: Store) => made(await next(store));
    const lost = { code: 'store.lease_lost' };
    const typesOf = async (jobId: string) =>
      (await one.jobs.listEvents({ jobId }))?.items.map(({ seq, type }) => `${seq} ${type}`);

    it('is claimed once, in order of submission, and only by workers of its kind', async () => {
      const [first, second] = [await tested.enqueue(one), await tested.enqueue(two)];
      const others = KINDS.filter(({ kind }) => kind !== tested.kind).map(({ kind }) => kind);
      expect(await one.jobs.claim('w', LEASE_MS, others)).toBeNull();
      const held = await claimed(two);
      expect(held).toMatchObject({ id: first.id, kind: tested.kind, status: 'running', numAttempts: 1 });
      expect(held.lease).toMatchObject({ owner: 'two', fencingToken: held.fencingToken });
      const claims = await Promise.all([next(one), next(two)]);
      expect(new Set(claims.map((job) => job?.id))).toEqual(new Set([second.id, undefined]));
    });

    it('is claimed by those alone who have its base model', async () => {
      const job = await tested.enqueue(one);
      const { baseModel } = job;
      const among = (...baseModels: string[]) => two.jobs.claim('w', LEASE_MS, [tested.kind], baseModels);
      expect(await among()).toBeNull();
      expect(await among('another', 'base-2')).toBeNull();
      expect(await one.jobs.get(job.id)).toMatchObject({ status: 'queued', numAttempts: 0 });
      expect(await among('another', baseModel)).toMatchObject({ id: job.id, baseModel });
    });

    it('is taken again when its heartbeat is lost, and the first to have it can write nothing more', async () => {
      await tested.enqueue(one);
      const stale = await claimed(one);
      clock.advance(LEASE_MS - 1);
      await one.jobs.renew(stale.id, stale.fencingToken, LEASE_MS);
      clock.advance(LEASE_MS - 1);
      expect(await next(two)).toBeNull();
      clock.advance(1);
      const fresh = await claimed(two);
      expect(fresh).toMatchObject({ id: stale.id, numAttempts: 2, fencingToken: stale.fencingToken + 1 });
      await refusesAll(one, stale);
      await tested.succeed(two, fresh);
      expect(await one.jobs.get(fresh.id)).toMatchObject({ status: 'succeeded', lease: null });
      await refusesAll(two, fresh);
    });

    it('that was given back is no attempt, and who gave it back does not hold it when it is claimed again', async () => {
      await tested.enqueue(one);
      const given = await claimed(one);
      await one.jobs.release(given.id, given.fencingToken);
      const again = await claimed(two);
      expect(again).toMatchObject({ id: given.id, numAttempts: 1 });
      await refusesAll(one, given);
      await tested.succeed(two, again);
    });

    it('goes back to the queue with its process, and stays with that of another', async () => {
      await tested.enqueue(one);
      const held = await claimed(one);
      expect((await two.recoverAfterRestart()).numJobs).toBe(0);
      await one.jobs.renew(held.id, held.fencingToken, LEASE_MS);
      expect((await one.recoverAfterRestart()).numJobs).toBe(1);
      await refusesAll(one, held);
      expect(await claimed(two)).toMatchObject({ id: held.id, numAttempts: 2 });
    });

    it.each(['queued', 'running', 'paused'])('is cancelled while it is %s, and its worker loses it', async (state) => {
      const { id } = await tested.enqueue(one);
      const held = state === 'queued' ? null : await claimed(one);
      if (state === 'paused') await two.jobs.pause(id);
      expect(await two.jobs.cancel(id, 'enough')).toMatchObject({
        kind: 'cancelled',
        job: { status: 'cancelled', errorMessage: 'enough', lease: null, pausedAt: null },
      });
      if (held !== null) await refusesAll(one, held);
      expect(await typesOf(id)).toEqual([`0 ${tested.ends.failed}`]);
      expect([await next(one), await two.jobs.cancel(id, 'again')]).toMatchObject([null, { kind: 'finished' }]);
    });

    it('that has ended is neither cancelled nor paused', async () => {
      await tested.enqueue(one);
      const held = await claimed(one);
      await tested.succeed(one, held);
      const ended = await two.jobs.get(held.id);
      for (const result of [
        await two.jobs.cancel(held.id, 'x'),
        await two.jobs.pause(held.id),
        await two.jobs.resume(held.id),
      ])
        expect(result).toEqual({ kind: 'finished', job: ended });
    });

    it('is paused and resumed: at its place, without another attempt, and its worker loses it', async () => {
      const first = await tested.enqueue(one);
      const held = await claimed(one);
      expect(await two.jobs.pause(first.id)).toMatchObject({ kind: 'done', job: { status: 'queued', numAttempts: 0 } });
      await refusesAll(one, held);
      expect(await next(one)).toBeNull();
      const second = await tested.enqueue(one);
      await two.jobs.resume(first.id);
      expect([(await claimed(one)).id, (await claimed(one)).id]).toEqual([first.id, second.id]);
      expect(await one.jobs.get(first.id)).toMatchObject({ pausedAt: null, numAttempts: 1 });
    });

    it('lists its events in order, one per key, and its end last', async () => {
      const { id } = await tested.enqueue(one);
      const held = await claimed(one);
      const append = (type: string, dedupeKey?: string) =>
        one.jobs.appendEvent(id, held.fencingToken, {
          type,
          data: {},
          ...(dedupeKey === undefined ? {} : { dedupeKey }),
        });
      await append('began', 'began');
      await append('warning');
      expect(await append('began', 'began')).toMatchObject({ isDuplicate: true, event: { seq: 0 } });
      await append('warning');
      await tested.succeed(one, held);
      await expect(append('warning')).rejects.toMatchObject(lost);
      expect(await typesOf(id)).toEqual(['0 began', '1 warning', '2 warning', `3 ${tested.ends.succeeded}`]);
    });

    it('fails with a message for its client, and a separate one for the log', async () => {
      const { id } = await tested.enqueue(one);
      const held = await claimed(one);
      const { job } = await one.jobs.fail(id, held.fencingToken, 'no luck', { code: 'x' });
      expect(job).toMatchObject({ status: 'failed', errorMessage: 'no luck' });
      expect((await two.jobs.listEvents({ jobId: id }))?.items).toMatchObject([
        { type: tested.ends.failed, data: { error_message: 'no luck', code: 'x' } },
      ]);
      expect(await next(two)).toBeNull();
    });

    it('is refused when as many are queued or running as may be, and welcome when one has ended', async () => {
      const maxLive = 2;
      await tested.enqueue(one, { maxLive });
      const running = await claimed(one);
      await tested.enqueue(two, { maxLive });
      await expect(tested.enqueue(one, { maxLive })).rejects.toMatchObject({ code: 'store.queue_full' });
      await tested.succeed(one, running);
      await tested.enqueue(two, { maxLive });
      await expect(tested.enqueue(two, { maxLive })).rejects.toMatchObject({ code: 'store.queue_full' });
    });

    async function refusesAll(store: Store, { id, fencingToken }: ClaimedJob<Job>): Promise<void> {
      for (const write of [
        store.jobs.renew(id, fencingToken, LEASE_MS),
        store.jobs.release(id, fencingToken),
        store.jobs.appendEvent(id, fencingToken, { type: 'warning', data: {} }),
        store.jobs.fail(id, fencingToken, 'late'),
        tested.succeed(store, { id, fencingToken }),
      ])
        await expect(write).rejects.toMatchObject(lost);
    }
  });
}

function made<Value>(value: Value | null): Value {
  if (value === null) throw new Error('it was not made');
  return value;
}
