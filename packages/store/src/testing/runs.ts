import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import type { UsageQuery } from '../parts/usage/usage.ts';
import { addJob, addModel, claim, type MakeHarness, ManualClock, type StoreHarness, train } from './harness.ts';

const DAY_MS = 24 * 3_600_000;

export function runSuite(makeHarness: MakeHarness): void {
  describe('runs and events', () => {
    let harness: StoreHarness;
    let store: Store;
    let clock: ManualClock;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());

    const stateOf = async (modelId: string) => (await store.models.getStates([modelId])).get(modelId);
    const counts = { numGroups: 1, numTrajectories: 4, numExceptions: 0 };
    const log = (modelId: string, split: string, reward: number) =>
      store.trajectories.recordLog({
        modelId,
        split,
        blobKey: `logs/${split}`,
        ...counts,
        metrics: { [`${split}/reward`]: reward },
      });
    /** A running job that takes gradient steps. */
    const begin = async (modelId: string) => {
      await addJob(store, modelId);
      const { id, fencingToken } = await claim(store);
      return {
        id,
        step: (index: number, metrics: Record<string, number>, rolloutMetrics: Record<string, number> = {}) =>
          store.jobs.appendEvent(id, fencingToken, {
            type: 'gradient_step',
            data: {},
            dedupeKey: `gradient_step:${index}`,
            metrics,
            rolloutMetrics,
          }),
        end: (rolloutMetrics: Record<string, number> = {}) =>
          store.jobs.succeed(id, fencingToken, { directoryKey: null, digest: null, metrics: {}, rolloutMetrics }),
      };
    };
    const read = async (modelId: string, name: string, axis: 'step' | 'gradient_step', maxPoints = 100) =>
      (await store.runs.readSeries({ modelId, names: [name], axis, maxPoints }))[0];

    it('a step has a point in each of many series, and names that are kept alike are one series', async () => {
      const { id: modelId } = await addModel(store);
      const { step } = await begin(modelId);
      const names = Array.from({ length: 250 }, (_, index) => `m/${String(index).padStart(3, '0')}`);
      await step(0, Object.fromEntries(names.map((name, index) => [name, index])));
      await step(1, {
        ...Object.fromEntries(names.map((name, index) => [name, -1 - index])),
        'z/\0': 1,
        'z/\uFFFD': 2,
      });
      await step(2, {});
      expect(await store.runs.listSeries(modelId)).toEqual([
        ...names.map((name, index) => ({ name, numPoints: 2, last: { value: -1 - index, step: 1 } })),
        { name: 'z/\uFFFD', numPoints: 2, last: { value: 2, step: 1 } },
      ]);
      expect(await read(modelId, 'm/249', 'gradient_step')).toMatchObject({
        points: [
          { first: 0, mean: 249 },
          { first: 1, mean: -250 },
        ],
      });
    });

    it('names may have the maximum length; longer ones are cut, and continue the series of that name', async () => {
      const { id: modelId } = await addModel(store);
      const { step } = await begin(modelId);
      // Characters of four bytes each, in an incompressible order.
      const name = Array.from({ length: 256 }, (_, index) =>
        String.fromCodePoint(0x20000 + ((index * 7919) % 40_000)),
      ).join('');
      await step(0, { [name]: 1 });
      await step(1, { [`${name}${name.repeat(20)}`]: 2 });
      expect(await store.runs.listSeries(modelId)).toEqual([{ name, numPoints: 2, last: { value: 2, step: 1 } }]);
      expect(await read(modelId, name, 'gradient_step')).toMatchObject({ numPlaces: 2 });
    });

    it('points of failed and cancelled jobs count in no figure, and are listed as discarded', async () => {
      const { id: modelId } = await addModel(store);
      const first = await begin(modelId);
      await first.step(0, { 'train/loss': 4 }, { 'train/reward': 0.25 });
      await first.end();
      await log(modelId, 'train', 0.5);
      const ends = [
        (id: string, token: number) => store.jobs.fail(id, token, 'NaN'),
        (id: string) => store.jobs.cancel(id, 'by a client'),
      ];
      const jobs: string[] = [];
      for (const end of ends) {
        await addJob(store, modelId);
        const { id, fencingToken } = await claim(store);
        await store.jobs.appendEvent(id, fencingToken, {
          type: 'gradient_step',
          data: {},
          dedupeKey: 'gradient_step:0',
          metrics: { 'train/loss': 1e30, 'train/only_failed': 1 },
          rolloutMetrics: { 'train/reward': 0.9 },
        });
        expect(await read(modelId, 'train/loss', 'step')).toMatchObject({ numPlaces: 2 });
        await end(id, fencingToken);
        jobs.push(id);
      }
      expect((await store.runs.listSeries(modelId)).map(({ name, last }) => [name, last.value])).toEqual([
        ['train/loss', 4],
        ['train/reward', 0.5],
      ]);
      expect(await stateOf(modelId)).toMatchObject({ reward: { step: 1, value: 0.5 }, best: { step: 1, value: 0.5 } });
      const loss = await read(modelId, 'train/loss', 'step');
      expect(loss).toMatchObject({ numPlaces: 1, points: [{ first: 1, mean: 4, max: 4 }] });
      expect(loss?.discarded).toEqual(jobs.map((jobId) => ({ place: 2, value: 1e30, jobId })));
      const bySteps = await read(modelId, 'train/reward', 'gradient_step');
      expect(bySteps).toMatchObject({ points: [{ first: 0, mean: 0.25 }] });
      expect(bySteps?.discarded.map(({ place }) => place)).toEqual([1, 2]);
      expect((await read(modelId, 'train/only_failed', 'step'))?.points).toEqual([]);
    });

    it('a mean is between minimum and maximum, even if the sum overflows', async () => {
      const { id: modelId } = await addModel(store);
      const { step } = await begin(modelId);
      const most = Number.MAX_VALUE;
      const values = {
        both: [1e200, -1e200],
        great: [most, most],
        apart: [most, -most],
        tiny: [5e-324, 5e-324],
        mixed: [1e300, 5e-324],
      };
      for (const index of [0, 1])
        await step(index, Object.fromEntries(Object.entries(values).map(([name, list]) => [name, list[index]!])));
      const means = { both: 0, great: most, apart: 0, tiny: 5e-324, mixed: 5e299 };
      for (const [name, mean] of Object.entries(means)) {
        expect(await read(modelId, name, 'step')).toMatchObject({ points: [{ mean, count: 2 }] });
        expect(await read(modelId, name, 'gradient_step', 1)).toMatchObject({ points: [{ mean, count: 2 }] });
      }
    });

    it('each new gradient step has a point, a repeated one none, and logs lie at the step they are of', async () => {
      const { id: modelId } = await addModel(store);
      await log(modelId, 'val', 0.1);
      const first = await begin(modelId);
      await first.step(0, { 'train/loss': 4, 'train/reward': 0.25 });
      await first.step(0, { 'train/loss': 4, 'train/reward': 0.25 });
      clock.advance(1000);
      await first.step(1, { 'train/loss': 2 });
      await first.end();
      await log(modelId, 'val', 0.5);
      const second = await begin(modelId);
      await second.step(0, { 'train/loss': 1 });

      expect(await store.runs.listSeries(modelId)).toEqual([
        { name: 'train/loss', numPoints: 3, last: { value: 1, step: 2 } },
        { name: 'train/reward', numPoints: 1, last: { value: 0.25, step: 1 } },
        { name: 'val/reward', numPoints: 2, last: { value: 0.5, step: 1 } },
      ]);
      const point = (place: number, value: number) => ({
        first: place,
        last: place,
        mean: value,
        min: value,
        max: value,
        count: 1,
      });
      expect(await read(modelId, 'train/loss', 'gradient_step')).toMatchObject({
        numPlaces: 3,
        points: [point(0, 4), point(1, 2), point(2, 1)],
      });
      expect(await read(modelId, 'train/loss', 'step')).toMatchObject({
        numPlaces: 2,
        points: [{ first: 1, last: 1, mean: 3, min: 2, max: 4, count: 2, recordedAt: clock.read() }, point(2, 1)],
      });
      expect(await read(modelId, 'val/reward', 'step')).toMatchObject({ points: [point(0, 0.1), point(1, 0.5)] });
      expect(await read(modelId, 'val/reward', 'gradient_step')).toEqual({
        name: 'val/reward',
        numPlaces: 0,
        points: [],
        discarded: [],
      });
      expect(await read(modelId, 'unknown', 'step')).toEqual({
        name: 'unknown',
        numPlaces: 0,
        points: [],
        discarded: [],
      });
      expect((await store.models.get(modelId))?.numGradientSteps).toBe(3);
    });

    it('the points of a job are at its resulting step, even after deleted checkpoints', async () => {
      const { id: modelId } = await addModel(store);
      const steps = [];
      for (const [index, deleted] of [[], [], [2], [1, 3]].entries()) {
        await store.checkpoints.delete(modelId, deleted);
        const job = await begin(modelId);
        await job.step(0, { 'train/loss': index });
        steps.push((await job.end()).checkpoint.step);
        expect((await store.jobs.listEvents({ jobId: job.id }))?.items.at(-1)).toMatchObject({
          type: 'training_ended',
          data: { step: steps.at(-1) },
        });
      }
      expect(steps).toEqual([1, 2, 3, 4]);
      const { points } = (await read(modelId, 'train/loss', 'step'))!;
      expect(points.map(({ first, last, mean }) => [first, last, mean])).toEqual(
        steps.map((step, index) => [step, step, index]),
      );
    });

    it('a measurement of held-out data is after the gradient steps before it; a place has the last one', async () => {
      const { id: modelId } = await addModel(store);
      const held = (id: string, fencingToken: number, numTaken: number, loss: number) =>
        store.jobs.appendEvent(id, fencingToken, {
          type: 'held_out',
          data: { gradient_step: numTaken, loss },
          dedupeKey: `held_out:${numTaken}`,
          metrics: { 'held_out/loss': loss },
        });
      const step = (id: string, fencingToken: number, index: number) =>
        store.jobs.appendEvent(id, fencingToken, {
          type: 'gradient_step',
          data: {},
          dedupeKey: `gradient_step:${index}`,
        });
      for (const losses of [
        [4, 3, 2],
        [5, 1, 6],
      ]) {
        await addJob(store, modelId);
        const { id, fencingToken } = await claim(store);
        for (const [numTaken, loss] of losses.entries()) {
          expect((await held(id, fencingToken, numTaken, loss)).isDuplicate).toBe(false);
          expect((await held(id, fencingToken, numTaken, 99)).isDuplicate).toBe(true);
          if (numTaken < 2) await step(id, fencingToken, numTaken);
        }
        await store.jobs.succeed(id, fencingToken, { directoryKey: null, digest: null, metrics: {} });
      }
      const places = async (axis: 'step' | 'gradient_step', maxPoints?: number) =>
        (await read(modelId, 'held_out/loss', axis, maxPoints))?.points.map(({ last, mean, count }) => [
          last,
          mean,
          count,
        ]);
      expect(await places('gradient_step')).toEqual([
        [0, 4, 1],
        [1, 3, 1],
        [2, 5, 1],
        [3, 1, 1],
        [4, 6, 1],
      ]);
      expect(await places('step')).toEqual([
        [1, 2, 1],
        [2, 6, 1],
      ]);
      expect(await places('step', 1)).toEqual([[2, 4, 2]]);
      expect((await store.runs.listSeries(modelId))[0]).toMatchObject({ numPoints: 6, last: { value: 6, step: 2 } });
    });

    it('metrics of rollouts are at the step that these were drawn from, those of updates at the step after it', async () => {
      const { id: modelId } = await addModel(store);
      expect(await stateOf(modelId)).toMatchObject({ reward: null, best: null });
      const first = await begin(modelId);
      for (const index of [0, 1]) await first.step(index, { 'train/loss': 1 }, { 'train/reward': 0.25 });
      await first.end();
      // Nothing to train: the end of the job has the metrics.
      await (await begin(modelId)).end({ 'train/reward': 0.5 });
      await store.checkpoints.delete(modelId, [2]);
      const third = await begin(modelId);
      await third.step(0, { 'train/loss': 1 }, { 'train/reward': 0.75 });
      await third.end();
      const steps = async (name: string) =>
        (await read(modelId, name, 'step'))?.points.map(({ last, mean }) => [last, mean]);
      expect(await steps('train/reward')).toEqual([
        [0, 0.25],
        [1, (0.5 + 0.75) / 2],
      ]);
      expect(await steps('train/loss')).toEqual([
        [1, 1],
        [3, 1],
      ]);
      expect(await stateOf(modelId)).toMatchObject({ reward: { step: 1, value: 0.75 } });
    });

    it('the best checkpoint has the highest reward of a split that is not trained on, of training if there is none', async () => {
      const { id: modelId } = await addModel(store);
      expect(await store.runs.bestCheckpoint(modelId)).toBeNull();
      for (const reward of [0.25, 0.75, 0.75, 0.5]) {
        const job = await begin(modelId);
        await job.step(0, {}, { 'train/reward': reward });
        await job.end();
      }
      const best = { step: 1, metric: 'train/reward', value: 0.75 };
      expect(await store.runs.bestCheckpoint(modelId)).toEqual(best);
      expect(await stateOf(modelId)).toMatchObject({ best });
      await store.checkpoints.delete(modelId, [1]);
      expect(await store.runs.bestCheckpoint(modelId)).toEqual({ ...best, step: 2 });
      await log(modelId, 'val', 0.125);
      expect(await store.runs.bestCheckpoint(modelId)).toEqual({ step: 4, metric: 'val/reward', value: 0.125 });
      expect(await store.runs.bestCheckpoint('unknown')).toBeNull();
    });

    it('the states of many models equal those of each one', async () => {
      const ids: string[] = [];
      for (const name of ['plain', 'trained', 'measured', 'gone', 'bare']) ids.push((await addModel(store, name)).id);
      for (const [index, reward] of [0.5, 0.75, 0.75, 0.25].entries())
        for (const modelId of ids.slice(1, 3)) {
          const job = await begin(modelId);
          await job.step(0, {}, { 'train/reward': reward });
          await job.end();
          if (index === 1 && modelId === ids[2]) await log(modelId, 'val', 0.125);
        }
      // Step 1 was sampled from for the second reward, of which the best is left at step 2.
      await store.checkpoints.delete(ids[1]!, [1]);
      await addJob(store, ids[0]!);
      await store.models.delete(ids[3]!);
      await store.checkpoints.delete(ids[4]!, [0]);
      const states = await store.models.getStates([...ids, 'unknown']);
      expect([...states.keys()].toSorted()).toEqual(ids.filter((_, index) => index !== 3).toSorted());
      expect(Object.fromEntries(ids.map((id, index) => [index, states.get(id)]))).toMatchObject({
        0: {
          latest: { step: 0 },
          numCheckpoints: 1,
          reward: null,
          best: null,
          jobs: { queued: 1, running: 0, paused: 0 },
        },
        1: {
          latest: { step: 4 },
          numCheckpoints: 4,
          reward: { step: 3, value: 0.25 },
          best: { step: 2, metric: 'train/reward', value: 0.75 },
        },
        2: {
          latest: { step: 4 },
          numCheckpoints: 5,
          reward: { step: 3, value: 0.25 },
          best: { step: 2, metric: 'val/reward', value: 0.125 },
        },
        4: { latest: null, numCheckpoints: 0, reward: null, best: null, jobs: { queued: 0, running: 0, paused: 0 } },
      });
      for (const id of ids) expect(await stateOf(id)).toEqual(states.get(id));
      expect(await store.runs.bestCheckpoint(ids[2]!)).toEqual(states.get(ids[2]!)?.best);
    });

    it('many points are merged to the requested number, each with its mean, minimum and maximum', async () => {
      const { id: modelId } = await addModel(store);
      const job = await begin(modelId);
      const values = Array.from({ length: 103 }, (_, index) => Math.sin(index) * index);
      for (const [index, value] of values.entries()) await job.step(index, { 'train/loss': value });
      const series = await read(modelId, 'train/loss', 'gradient_step', 10);
      expect(series?.numPlaces).toBe(103);
      expect(series?.points).toHaveLength(10);
      let next = 0;
      for (const { first, last, mean, min, max, count } of series?.points ?? []) {
        expect(first).toBe(next);
        expect(count).toBe(last - first + 1);
        const own = values.slice(first, last + 1);
        expect([min, max]).toEqual([Math.min(...own), Math.max(...own)]);
        expect(mean).toBeCloseTo(own.reduce((sum, value) => sum + value, 0) / own.length, 12);
        next = last + 1;
      }
      expect(next).toBe(103);
      const part = await store.runs.readSeries({
        modelId,
        names: ['train/loss'],
        axis: 'gradient_step',
        maxPoints: 1,
        from: 10,
        to: 19,
      });
      expect(part).toMatchObject([{ numPlaces: 10, points: [{ first: 10, last: 19, count: 10 }] }]);
    });

    it('a write that fails leaves no point, and a stale worker adds none', async () => {
      const { id: modelId } = await addModel(store);
      const job = await begin(modelId);
      await expect(job.step(0, { 'train/a': 1, 'train/b': Number.NaN })).rejects.toThrow('train/b');
      expect(await store.runs.listSeries(modelId)).toEqual([]);
      await store.jobs.pause(job.id);
      await expect(job.step(0, { 'train/a': 1 })).rejects.toMatchObject({ code: 'store.lease_lost' });
      expect(await store.runs.listSeries(modelId)).toEqual([]);
      expect((await store.models.get(modelId))?.numGradientSteps).toBe(0);
    });

    it('a run is removed with its model, and another model of its name starts anew', async () => {
      const { id: modelId } = await addModel(store);
      await log(modelId, 'val', 0.1);
      expect(await store.models.delete(modelId)).toMatchObject({ deletedRun: true });
      expect(await store.runs.listSeries(modelId)).toEqual([]);
      expect(await read(modelId, 'val/reward', 'step')).toMatchObject({ numPlaces: 0 });
      const again = await addModel(store);
      expect(await store.runs.listSeries(again.id)).toEqual([]);
    });

    it('a job starts once in the feed, and resumes after a pause, a restart or a lost lease', async () => {
      const model = await addModel(store);
      await begin(model.id);
      await store.recoverAfterRestart();
      const held = await claim(store);
      await store.jobs.release(held.id, held.fencingToken);
      await claim(store);
      clock.advance(60_000 * 60);
      await claim(store);
      await store.jobs.pause(held.id);
      await store.jobs.resume(held.id);
      const again = await claim(store);
      await store.jobs.fail(again.id, again.fencingToken, 'x');
      const ended = (await store.feed.list({ entityId: model.entityId })).filter(({ type }) => type.startsWith('job_'));
      expect(ended.map(({ type, data }) => [type, data['status']])).toEqual([
        ['job_queued', undefined],
        ['job_started', undefined],
        ['job_resumed', 'running'],
        ['job_resumed', 'running'],
        ['job_resumed', 'running'],
        ['job_paused', undefined],
        ['job_resumed', 'queued'],
        ['job_resumed', 'running'],
      ]);
    });

    it('the feed lists events in one order, of one entity or of all', async () => {
      const model = await addModel(store);
      const other = await addModel(store, 'agent', 'demo', 'other');
      const job = await begin(model.id);
      await job.step(0, { 'train/loss': 1 });
      await store.jobs.pause(job.id);
      await store.jobs.pause(job.id);
      await store.jobs.resume(job.id);
      await store.jobs.cancel(job.id, 'enough');
      await log(model.id, 'val', 1);
      await train(store, model.id, 'checkpoints/1');
      await store.checkpoints.delete(model.id, [1, 7]);
      await store.models.delete(other.id);

      const own = await store.feed.list({ entityId: model.entityId });
      expect(own.map(({ type }) => type)).toEqual([
        'model_created',
        'job_queued',
        'job_started',
        'gradient_step',
        'job_paused',
        'job_resumed',
        'training_failed',
        'log_recorded',
        'job_queued',
        'job_started',
        'checkpoint_created',
        'training_ended',
        'checkpoints_deleted',
      ]);
      expect(own.find(({ type }) => type === 'training_failed')).toMatchObject({
        modelId: model.id,
        jobId: job.id,
        data: { error_message: 'enough' },
      });
      expect(own.at(-1)?.data).toEqual({ steps: [1] });
      const all = await store.feed.list({});
      expect(all.filter(({ entityId }) => entityId === other.entityId).map(({ type }) => type)).toEqual([
        'model_created',
        'model_deleted',
      ]);
      const positions = all.map(({ position }) => position);
      expect(positions).toEqual(positions.toSorted((first, second) => first - second));
      expect(await store.feed.lastPosition()).toBe(positions.at(-1));
      expect(await store.feed.list({ after: positions[2] ?? 0, limit: 2 })).toEqual(all.slice(3, 5));
      expect(await store.feed.list({ order: 'desc', limit: 2 })).toEqual(all.toReversed().slice(0, 2));
      expect(await store.feed.list({ order: 'desc', after: positions[2] ?? 0 })).toEqual(all.slice(0, 2).toReversed());
      expect(await store.feed.list({ modelId: other.id })).toHaveLength(2);

      clock.advance(8 * DAY_MS);
      await store.purgeExpired();
      expect(await store.feed.list({})).toEqual([]);
      await addModel(store, 'later');
      expect((await store.feed.list({}))[0]?.position).toBeGreaterThan(positions.at(-1) ?? 0);
    });

    it('external trackers are stored by name: the progress of each, and its runs until their models are removed', async () => {
      const { id: modelId } = await addModel(store);
      expect(await store.runs.trackerPosition('mlflow')).toBeNull();
      const run = { id: 'r1', url: null, numGradientSteps: 0 };
      await store.runs.setTracked('mlflow', modelId, run);
      await store.runs.advanceTracker('mlflow', 7, new Map([[modelId, 3]]));
      await store.runs.advanceTracker('other', 1, new Map([[modelId, 9]]));
      expect(await store.runs.trackerPosition('mlflow')).toBe(7);
      expect(await store.runs.getTracked('mlflow', modelId)).toEqual({ ...run, numGradientSteps: 3 });
      expect(await store.runs.getTracked('other', modelId)).toBeNull();
      const moved = { id: 'r2', url: 'http://there', numGradientSteps: 3 };
      await store.runs.setTracked('mlflow', modelId, moved);
      await store.models.delete(modelId);
      expect(await store.runs.getTracked('mlflow', modelId)).toEqual(moved);
      clock.advance(8 * DAY_MS);
      expect(await store.purgeExpired()).toMatchObject({ numModels: 1 });
      expect(await store.runs.getTracked('mlflow', modelId)).toBeNull();
      await store.runs.setTracked('mlflow', modelId, null);
    });

    it('the state of a model counts its checkpoints and its live jobs; the queue has everyone in their place', async () => {
      const model = await addModel(store);
      const other = await addModel(store, 'agent', 'demo', 'other');
      await train(store, model.id, 'checkpoints/1', { metrics: { 'train/loss': 1 } });
      const theirs = await addJob(store, other.id);
      await store.jobs.pause(theirs.id);
      const running = await begin(model.id);
      const paused = await addJob(store, model.id);
      await store.jobs.pause(paused.id);
      const waiting = await addJob(store, model.id);
      expect(await stateOf(model.id)).toMatchObject({
        latest: { step: 1, metrics: { 'train/loss': 1 } },
        numCheckpoints: 2,
        jobs: { queued: 1, running: 1, paused: 1 },
      });
      const queue = await store.jobs.listQueue({ entityId: model.entityId, limit: 10 });
      expect(queue.map(({ job, numAhead }) => [job.id, numAhead])).toEqual([
        [running.id, 0],
        [paused.id, 1],
        [waiting.id, 1],
      ]);
      expect(await store.jobs.listQueue({ limit: 1 })).toMatchObject([{ job: { id: theirs.id }, numAhead: 0 }]);
      expect(await stateOf('unknown')).toBeUndefined();
    });

    it('jobs are listed by project, kind and status, over all models of an entity', async () => {
      const one = await addModel(store, 'agent', 'one');
      const two = await addModel(store, 'agent', 'two');
      const first = await addJob(store, one.id);
      const second = await addJob(store, two.id);
      const taught = await store.jobs.enqueue({ modelId: two.id, kind: 'sft', config: {}, dataKey: 'sft/1' });
      await store.jobs.cancel(first.id, 'enough');
      const { entityId } = one;
      const ids = async (filter: object) => (await store.jobs.list({ entityId, ...filter })).items.map(({ id }) => id);
      expect(await ids({})).toEqual([first.id, second.id, taught?.id]);
      expect(await ids({ project: 'two' })).toEqual([second.id, taught?.id]);
      expect(await ids({ kind: 'sft' })).toEqual([taught?.id]);
      expect(await ids({ status: 'cancelled' })).toEqual([first.id]);
      expect(await ids({ project: 'two', kind: 'rl', order: 'desc', limit: 1 })).toEqual([second.id]);
    });

    it('usage is split by project, key, model, kind and day, for its entity only', async () => {
      const usage = { keyId: 'k1', entityId: 'e', project: null, model: 'base', kind: 'chat' as const };
      const record = (part: object) =>
        void store.usage.record({ ...usage, promptTokens: 10, completionTokens: 1, ...part });
      record({});
      record({ project: 'p', keyId: 'k2' });
      record({ entityId: 'other' });
      const from = clock.read();
      await store.usage.group({ entityId: 'e', by: [], from, to: from + 1, limit: 1 });
      clock.advance(DAY_MS);
      record({ model: 'agent', promptTokens: 5 });
      const group = (by: Parameters<Store['usage']['group']>[0]['by'], limit = 100) =>
        store.usage.group({ entityId: 'e', by, from, to: from + 10 * DAY_MS, limit });
      const sums = (numRequests: number, promptTokens: number) => ({
        numRequests,
        promptTokens,
        completionTokens: numRequests,
      });
      expect(await group([])).toEqual([sums(3, 25)]);
      expect(await group(['day'])).toEqual([
        { day: from, ...sums(2, 20) },
        { day: from + DAY_MS, ...sums(1, 5) },
      ]);
      expect(await group(['key', 'model'])).toEqual([
        { keyId: 'k1', model: 'agent', ...sums(1, 5) },
        { keyId: 'k1', model: 'base', ...sums(1, 10) },
        { keyId: 'k2', model: 'base', ...sums(1, 10) },
      ]);
      expect(await group(['kind', 'project'])).toHaveLength(2);
      expect(await group(['key', 'model'], 2)).toHaveLength(2);
      expect(await store.usage.group({ entityId: 'nobody', by: [], from, to: from + 1, limit: 1 })).toEqual([]);
    });

    it('usage is filtered by project, key, model and kind, and its steps are folded, as by a plain sum', async () => {
      const from = clock.read();
      const MODELS = [
        'org/base',
        'acme/demo/run1',
        'acme/demo/run1:step1',
        'acme/demo/run1:step12',
        'acme/a_b/Run:step3',
      ];
      const all = Array.from({ length: 120 }, (_, index) => ({
        entityId: 'e',
        keyId: `k${index % 3}`,
        project: index % 4 === 0 ? 'named' : null,
        model: MODELS[index % MODELS.length]!,
        kind: (['chat', 'completion', 'training'] as const)[index % 7 > 2 ? 0 : index % 7]!,
        promptTokens: index + 1,
        completionTokens: index * 2 + 1,
      }));
      for (const usage of all) void store.usage.record(usage);
      const projectOf = ({ project, model }: (typeof all)[number]) =>
        project ?? (model.split('/').length === 3 ? model.split('/')[1]! : null);
      const rootOf = ({ model }: { model: string }) => model.replace(/:step\d+$/, '');
      const common = { entityId: 'e', from, to: from + DAY_MS, limit: 100 };
      const totals = (some: typeof all) => ({
        numRequests: some.length,
        promptTokens: some.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
        completionTokens: some.reduce((sum, { completionTokens }) => sum + completionTokens, 0),
      });
      const FILTERS: readonly (readonly [Partial<UsageQuery>, (usage: (typeof all)[number]) => boolean])[] = [
        [{}, () => true],
        [{ project: 'demo' }, (usage) => projectOf(usage) === 'demo'],
        [{ project: 'named' }, (usage) => projectOf(usage) === 'named'],
        [{ project: null }, (usage) => projectOf(usage) === null],
        [{ keyIds: ['k0', 'k2', 'gone'] }, ({ keyId }) => keyId !== 'k1'],
        [{ modelText: 'RUN' }, ({ model }) => /run/i.test(model)],
        [{ modelText: 'a_b/' }, ({ model }) => model.includes('a_b/')],
        [{ modelText: 'o%b' }, () => false],
        [{ kinds: ['chat', 'completion'] }, ({ kind }) => kind !== 'training'],
        [
          { kinds: ['training'], project: 'demo', keyIds: ['k1'], modelText: 'run1:step1' },
          (usage) =>
            usage.kind === 'training' &&
            projectOf(usage) === 'demo' &&
            usage.keyId === 'k1' &&
            usage.model.includes('run1:step1'),
        ],
      ];
      for (const [filter, isMatch] of FILTERS) {
        const some = all.filter(isMatch);
        expect(await store.usage.group({ ...common, ...filter, by: [] })).toEqual(
          some.length === 0 ? [] : [totals(some)],
        );
        const roots = [...new Set(some.map(rootOf))].toSorted();
        const groups = await store.usage.group({ ...common, ...filter, by: ['model'], foldsSteps: true });
        // Databases order upper and lower case in different ways.
        expect(groups.toSorted((a, b) => (a.model! < b.model! ? -1 : 1))).toEqual(
          roots.map((root) => {
            const own = some.filter((usage) => rootOf(usage) === root);
            const steps = new Set(own.map(({ model }) => model)).difference(new Set([root]));
            return { model: root, numSteps: steps.size, ...totals(own) };
          }),
        );
      }
      const projects = await store.usage.group({ ...common, by: ['project'] });
      expect(projects.map(({ project }) => project)).toEqual([null, 'a_b', 'demo', 'named']);
      expect(await store.usage.group({ ...common, by: ['model'], foldsSteps: true, limit: 2 })).toHaveLength(2);
    });
  });
}
