import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import {
  addJob,
  addModel,
  claim,
  claimExport,
  eventTypes,
  type MakeHarness,
  ManualClock,
  type StoreHarness,
  train,
} from './harness.ts';

export function jobSuite(makeHarness: MakeHarness): void {
  describe('jobs', () => {
    let harness: StoreHarness;
    let store: Store;
    const clock = new ManualClock();
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());
    const outcome = { directoryKey: 'checkpoints/a', digest: 'd', metrics: { 'train/entropy': 0.25 } };

    it('a job goes from queued over running to succeeded, with its checkpoint and its last event', async () => {
      const model = await addModel(store);
      const job = await addJob(store, model.id);
      expect(job).toMatchObject({
        status: 'queued',
        kind: 'rl',
        config: { learningRate: 1e-5 },
        lease: null,
        start: null,
      });
      const held = await claim(store);
      expect(held).toMatchObject({
        id: job.id,
        status: 'running',
        numAttempts: 1,
        start: { step: 0, directoryKey: null },
      });
      await store.jobs.appendEvent(job.id, held.fencingToken, { type: 'training_started', data: { num_sequences: 1 } });
      await store.jobs.appendEvent(job.id, held.fencingToken, { type: 'gradient_step', data: { policy_loss: 0.5 } });
      const { job: done, checkpoint } = await store.jobs.succeed(job.id, held.fencingToken, outcome);
      expect(done).toMatchObject({ status: 'succeeded', lease: null, errorMessage: null });
      expect(checkpoint).toMatchObject({ modelId: model.id, step: 1, ...outcome });
      expect(await store.jobs.get(job.id)).toEqual(done);
      expect(await store.checkpoints.latest(model.id)).toEqual(checkpoint);
      expect((await store.models.get(model.id))?.nextStep).toBe(2);
      const events = (await store.jobs.listEvents({ jobId: job.id }))?.items ?? [];
      expect(events.map((event) => [event.seq, event.type, event.data])).toEqual([
        [0, 'training_started', { num_sequences: 1 }],
        [1, 'gradient_step', { policy_loss: 0.5 }],
        [2, 'training_ended', { step: 1 }],
      ]);
    });

    it('a job remembers the request that made it, and its gradient steps are charged to that key, each once', async () => {
      const model = await addModel(store);
      const origin = { requestId: 'r', traceParent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, project: 'team' };
      const job = { modelId: model.id, kind: 'rl' as const, config: {}, dataKey: 'groups/a', keyId: 'k', origin };
      const made = await store.jobs.enqueue(job);
      expect(made?.origin).toEqual(origin);
      const first = await claim(store);
      expect(first.origin).toEqual(origin);
      const step = (index: number) => ({
        type: 'gradient_step',
        data: {},
        dedupeKey: `gradient_step:${index}`,
        usage: { numRequests: index === 0 ? (1 as const) : (0 as const), promptTokens: 30, completionTokens: 10 },
      });
      await store.jobs.appendEvent(first.id, first.fencingToken, step(0));
      // The worker dies, and the next one repeats the step before its own.
      clock.advance(60_000);
      const second = await claim(store);
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
      await store.jobs.appendEvent(second.id, second.fencingToken, step(0));
      await expect(store.jobs.appendEvent(first.id, first.fencingToken, step(1))).rejects.toMatchObject({
        code: 'store.lease_lost',
      });
      await store.jobs.appendEvent(second.id, second.fencingToken, step(1));
      const from = 0;
      const to = clock.read() + 1;
      const group = (by: Parameters<Store['usage']['group']>[0]['by']) =>
        store.usage.group({ entityId: model.entityId, by, from, to, limit: 10 });
      expect(await group(['key', 'project', 'model', 'kind'])).toEqual([
        {
          keyId: 'k',
          project: 'team',
          model: `${model.entity}/${model.project}/${model.name}`,
          kind: 'training',
          numRequests: 1,
          promptTokens: 60,
          completionTokens: 20,
        },
      ]);
      // A job without a key is not charged.
      await store.jobs.succeed(second.id, second.fencingToken, outcome);
      await addJob(store, model.id);
      const third = await claim(store);
      expect(third.origin).toEqual({ requestId: null, traceParent: null, project: null });
      await store.jobs.appendEvent(third.id, third.fencingToken, step(0));
      expect(await group([])).toMatchObject([{ completionTokens: 20 }]);
      // As for jobs of other kinds, which are not charged.
      await store.exports.create({ modelId: model.id, step: 1, format: 'gguf', dtype: 'f16', origin });
      expect((await claimExport(store)).origin).toEqual(origin);
    });

    it('a running job keeps its newest snapshot until it ends, also for who claims it next', async () => {
      const { id: modelId } = await addModel(store);
      const { id } = await addJob(store, modelId);
      const first = await claim(store, 'worker-a', 1000);
      expect(first.snapshot).toBeNull();
      const key = (name: string) => `snapshots/${id}/${name}`;
      const kept = (held: { fencingToken: number }, directoryKey: string, numGradientSteps: number) =>
        store.jobs.keepSnapshot(id, held.fencingToken, { directoryKey: key(directoryKey), numGradientSteps });
      expect(await kept(first, 'a', 5)).toEqual({ replacedKeys: [] });
      expect(await kept(first, 'a', 5)).toEqual({ replacedKeys: [] });
      for (const name of ['lost', 'b']) await store.files.announce(key(name));
      await store.files.announce('snapshots/of-another/a');
      expect(await kept(first, 'b', 10)).toEqual({ replacedKeys: [key('a'), key('lost')] });
      expect(await store.files.isNamed(key('a'))).toBe(false);
      expect((await store.files.listReferenced()).directoryKeys).toEqual([key('b')]);

      clock.advance(1000);
      const second = await claim(store, 'worker-b');
      expect(second.snapshot).toEqual({ directoryKey: key('b'), numGradientSteps: 10 });
      await expect(kept(first, 'late', 15)).rejects.toMatchObject({ code: 'store.lease_lost' });
      expect(await store.files.isNamed(key('late'))).toBe(false);
      await store.jobs.pause(id);
      await store.jobs.resume(id);
      const third = await claim(store);
      expect(third.snapshot).toEqual({ directoryKey: key('b'), numGradientSteps: 10 });
      await store.files.announce(key('unfinished'));
      const { directoryKeys } = await store.jobs.succeed(id, third.fencingToken, outcome);
      expect(directoryKeys).toEqual([key('b'), key('unfinished')]);
      expect(await store.files.listAnnounced()).toEqual(['snapshots/of-another/a']);
      expect(await store.files.isNamed(key('b'))).toBe(false);
    });

    it.each(['fails', 'is cancelled', 'loses its model'])('the snapshot of a job that %s goes with it', async (how) => {
      const { id: modelId } = await addModel(store);
      const { id } = await addJob(store, modelId);
      const { fencingToken } = await claim(store);
      const directoryKey = `snapshots/${id}/a`;
      await store.jobs.keepSnapshot(id, fencingToken, { directoryKey, numGradientSteps: 5 });
      const ended = {
        fails: () => store.jobs.fail(id, fencingToken, 'no reason'),
        'is cancelled': () => store.jobs.cancel(id, 'no reason'),
        'loses its model': () => store.models.delete(modelId),
      }[how]!;
      expect(await ended()).toMatchObject({ directoryKeys: [directoryKey] });
      expect(await store.files.isNamed(directoryKey)).toBe(false);
    });

    it('a job never starts before its creation, nor ends before its start, when the clock is set back', async () => {
      const model = await addModel(store);
      for (const ends of ['succeeded', 'failed', 'cancelled'] as const) {
        const job = await addJob(store, model.id);
        clock.advance(-5_000);
        const held = await claim(store);
        expect(held.startedAt).toBe(job.createdAt);
        clock.advance(-60_000);
        if (ends === 'succeeded') await store.jobs.succeed(job.id, held.fencingToken, outcome);
        if (ends === 'failed') await store.jobs.fail(job.id, held.fencingToken, 'no luck');
        if (ends === 'cancelled') await store.jobs.cancel(job.id, 'enough');
        expect(await store.jobs.get(job.id)).toMatchObject({ status: ends, finishedAt: job.createdAt });
        clock.advance(65_000);
      }
      const waiting = await addJob(store, model.id);
      clock.advance(-1);
      await store.jobs.cancel(waiting.id, 'enough');
      expect(await store.jobs.get(waiting.id)).toMatchObject({ startedAt: null, finishedAt: waiting.createdAt });
      clock.advance(1);
      const queued = await store.exports.create({ modelId: model.id, step: 0, format: 'merged-gguf', dtype: 'f16' });
      clock.advance(-9_000);
      const running = await claimExport(store);
      clock.advance(-9_000);
      await store.jobs.fail(running.id, running.fencingToken, 'no');
      const { createdAt } = queued!;
      expect(await store.exports.get(running.id)).toMatchObject({
        createdAt,
        startedAt: createdAt,
        finishedAt: createdAt,
      });
      clock.advance(18_000);
    });

    it('a job that trained nothing advances the step and shares the weights it started from', async () => {
      const model = await addModel(store);
      await train(store, model.id, null);
      expect(await store.checkpoints.latest(model.id)).toMatchObject({ step: 1, directoryKey: null, digest: null });
      await train(store, model.id, 'checkpoints/2');
      await train(store, model.id, null);
      expect(await store.checkpoints.latest(model.id)).toMatchObject({
        step: 3,
        directoryKey: 'checkpoints/2',
        digest: 'digest of checkpoints/2',
      });
    });

    it('a failed job leaves the step unchanged, gives the reason, and the next one starts from the last good checkpoint', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await addJob(store, model.id);
      await addJob(store, model.id);
      const held = await claim(store);
      const { job } = await store.jobs.fail(held.id, held.fencingToken, 'loss is not finite');
      expect(job).toMatchObject({ status: 'failed', errorMessage: 'loss is not finite' });
      expect((await store.jobs.listEvents({ jobId: held.id }))?.items).toMatchObject([
        { type: 'training_failed', data: { error_message: 'loss is not finite' } },
      ]);
      expect((await store.models.get(model.id))?.nextStep).toBe(2);
      expect((await claim(store)).start).toEqual({
        step: 1,
        directoryKey: 'checkpoints/1',
        digest: 'digest of checkpoints/1',
      });
    });

    it('jobs of one model run one after the other in order of submission, several models side by side', async () => {
      const [one, two] = [await addModel(store, 'one'), await addModel(store, 'two')];
      const [a, b] = [await addJob(store, one.id), await addJob(store, one.id)];
      const c = await addJob(store, two.id);
      const first = await claim(store, 'worker-a');
      const second = await claim(store, 'worker-b');
      expect([first.id, second.id]).toEqual([a.id, c.id]);
      expect(await store.jobs.claim('worker-c', 1000)).toBeNull();
      await store.jobs.succeed(first.id, first.fencingToken, outcome);
      const third = await claim(store, 'worker-c');
      expect([third.id, third.start?.step]).toEqual([b.id, 1]);
    });

    it('two handles never claim the same job', async () => {
      const other = await harness.open({ clock: clock.read });
      const jobIds: string[] = [];
      for (let i = 0; i < 6; i++) jobIds.push((await addJob(store, (await addModel(store, `m${i}`)).id)).id);
      const claims = await Promise.all(jobIds.map((_, i) => (i % 2 === 0 ? store : other).jobs.claim(`w${i}`, 1000)));
      expect(new Set(claims.map((job) => job?.id))).toEqual(new Set(jobIds));
      expect(await other.jobs.claim('late', 1000)).toBeNull();
    });

    it('an expired lease passes the job on, and the old worker can write nothing more', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      const { id } = await addJob(store, model.id);
      const stale = await claim(store, 'worker-a', 1000);
      await store.jobs.appendEvent(id, stale.fencingToken, {
        type: 'gradient_step',
        data: {},
        dedupeKey: 'gradient_step:0',
      });
      clock.advance(999);
      expect(await store.jobs.claim('worker-b', 1000)).toBeNull();
      await store.jobs.renew(id, stale.fencingToken, 1000);
      clock.advance(999);
      expect(await store.jobs.claim('worker-b', 1000)).toBeNull();
      clock.advance(1);
      const fresh = await claim(store, 'worker-b');
      expect(fresh).toMatchObject({ id, numAttempts: 2, lease: { owner: 'worker-b' }, start: stale.start });
      expect(fresh.fencingToken).toBeGreaterThan(stale.fencingToken);

      const lost = { code: 'store.lease_lost' };
      const token = stale.fencingToken;
      await expect(store.jobs.renew(id, token, 1000)).rejects.toMatchObject(lost);
      await expect(store.jobs.appendEvent(id, token, { type: 'gradient_step', data: {} })).rejects.toMatchObject(lost);
      await expect(store.jobs.succeed(id, token, outcome)).rejects.toMatchObject(lost);
      await expect(store.jobs.fail(id, token, 'late')).rejects.toMatchObject(lost);
      await expect(store.jobs.release(id, token)).rejects.toMatchObject(lost);
      expect(await eventTypes(store, id)).toEqual(['gradient_step']);
      expect((await store.checkpoints.latest(model.id))?.step).toBe(1);
      await store.jobs.succeed(id, fresh.fencingToken, outcome);
    });

    it('a job taken over keeps the weights it started from, even if they are deleted meanwhile', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await addJob(store, model.id);
      const before = await claim(store, 'worker-a', 1000);
      await store.checkpoints.delete(model.id, [1]);
      clock.advance(1000);
      expect((await claim(store, 'worker-b')).start).toEqual(before.start);
      expect(before.start).toMatchObject({ step: 1, directoryKey: 'checkpoints/1' });
    });

    it('an event with a dedupe key is written once, for any writer', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      const event = { type: 'gradient_step', data: { policy_loss: 1 }, dedupeKey: 'gradient_step:0' };
      const before = await claim(store, 'worker-a', 1000);
      const first = await store.jobs.appendEvent(id, before.fencingToken, event);
      clock.advance(1000);
      const after = await claim(store, 'worker-b');
      expect(await store.jobs.appendEvent(id, after.fencingToken, event)).toEqual({
        event: first.event,
        isDuplicate: true,
      });
      await store.jobs.appendEvent(id, after.fencingToken, { ...event, dedupeKey: 'gradient_step:1' });
      expect(await eventTypes(store, id)).toEqual(['gradient_step', 'gradient_step']);
    });

    it('a job has exactly one terminal event, and it is the last', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      const held = await claim(store);
      await expect(store.jobs.appendEvent(id, held.fencingToken, { type: 'training_ended', data: {} })).rejects.toThrow(
        'when the job finishes',
      );
      await store.jobs.fail(id, held.fencingToken, 'first');
      await expect(store.jobs.fail(id, held.fencingToken, 'second')).rejects.toMatchObject({
        code: 'store.lease_lost',
      });
      expect((await store.jobs.cancel(id, 'third'))?.kind).toBe('finished');
      expect(await eventTypes(store, id)).toEqual(['training_failed']);
    });

    it('a released job is queued again in its old place, without counting the attempt', async () => {
      const model = await addModel(store);
      const first = await addJob(store, model.id);
      await addJob(store, model.id);
      const held = await claim(store);
      await store.jobs.release(held.id, held.fencingToken);
      expect(await store.jobs.get(first.id)).toMatchObject({ status: 'queued', numAttempts: 0, lease: null });
      const again = await claim(store);
      expect([again.id, again.numAttempts]).toEqual([first.id, 1]);
      expect(again.fencingToken).toBeGreaterThan(held.fencingToken);
    });

    it('after a restart running jobs are queued again, counting the attempt', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      await claim(store, store.instanceId, 1e9);
      expect((await store.recoverAfterRestart()).numJobs).toBe(1);
      expect(await claim(store)).toMatchObject({ id, numAttempts: 2 });
    });

    it('a new gradient step forgets the attempts before it, one that comes again does not', async () => {
      const { id } = await addJob(store, (await addModel(store)).id);
      const lives = [];
      for (const index of [0, 0, 0, 1]) {
        const { fencingToken, numAttempts } = await claim(store);
        const step = { type: 'gradient_step', data: {}, dedupeKey: `gradient_step:${index}` } as const;
        await store.jobs.appendEvent(id, fencingToken, step);
        lives.push([numAttempts, (await store.jobs.get(id))?.numAttempts]);
        await store.recoverAfterRestart();
      }
      expect(lives).toEqual([
        [1, 1],
        [2, 2],
        [3, 3],
        [4, 1],
      ]);
      await store.jobs.pause((await claim(store)).id);
      expect((await store.jobs.get(id))?.numAttempts).toBe(1);
    });

    it('queued and running jobs can be cancelled, ended ones stay as they are', async () => {
      const model = await addModel(store);
      const [running, queued] = [await addJob(store, model.id), await addJob(store, model.id)];
      const held = await claim(store);
      for (const job of [queued, running]) {
        expect(await store.jobs.cancel(job.id, 'by the user')).toMatchObject({
          kind: 'cancelled',
          job: { status: 'cancelled' },
        });
        expect(await eventTypes(store, job.id)).toEqual(['training_failed']);
      }
      await expect(store.jobs.renew(held.id, held.fencingToken, 1000)).rejects.toMatchObject({
        code: 'store.lease_lost',
      });
      expect(await store.jobs.cancel('unknown', 'by the user')).toBeNull();
    });

    it('an artifact stays while a job that started from it runs, and is freed when the job ends', async () => {
      const model = await addModel(store);
      await train(store, model.id, 'checkpoints/1');
      await addJob(store, model.id);
      const held = await claim(store);
      expect((await store.checkpoints.delete(model.id, [1])).directoryKeys).toEqual([]);
      expect((await store.files.listReferenced()).directoryKeys).toEqual(['checkpoints/1']);
      const { directoryKeys } = await store.jobs.succeed(held.id, held.fencingToken, {
        directoryKey: 'checkpoints/2',
        digest: 'd',
        metrics: {},
      });
      expect(directoryKeys).toEqual(['checkpoints/1']);
      expect((await store.files.listReferenced()).directoryKeys).toEqual(['checkpoints/2']);
    });

    it('jobs are listed by model, entity and status; unknown ids give nothing', async () => {
      const model = await addModel(store);
      const [first, second] = [await addJob(store, model.id), await addJob(store, model.id)];
      await claim(store);
      const ids = async (query: Parameters<Store['jobs']['list']>[0]) =>
        (await store.jobs.list(query)).items.map((job) => job.id);
      expect(await ids({ modelId: model.id })).toEqual([first.id, second.id]);
      expect(await ids({ status: 'queued' })).toEqual([second.id]);
      expect(await ids({ entityId: model.entityId, order: 'desc', limit: 1 })).toEqual([second.id]);
      expect(await ids({ entityId: 'nobody' })).toEqual([]);
      expect(await store.jobs.enqueue({ modelId: 'unknown', kind: 'rl', config: {}, dataKey: 'g' })).toBeNull();
      expect(await store.jobs.get('unknown')).toBeNull();
      expect(await store.jobs.listEvents({ jobId: 'unknown' })).toBeNull();
    });
  });
}
