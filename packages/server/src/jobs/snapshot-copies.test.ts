import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type ClaimedJob, FolderBlobs, type SqlStore, StoreError, takeCensus } from '@trainyard/store';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { openTestStore } from '../testing/test-store.ts';
import { SnapshotCopies } from './snapshot-copies.ts';

let directory: string;
let store: SqlStore;
let blobs: FolderBlobs;
const logged: string[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'copies-'));
  store = await openTestStore(directory);
  blobs = await FolderBlobs.open(join(directory, 'blobs'));
  logged.length = 0;
});
afterEach(async () => {
  await store.close();
  await blobs.close();
  await rm(directory, { recursive: true });
});

async function claimed(): Promise<ClaimedJob> {
  const { id: entityId } = await store.keys.ensureEntity('local');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.models.create({ entityId, project: 'p', name: 'm', baseModel: 'base', lora });
  if (made.kind !== 'created') throw new Error('no model was made');
  await store.jobs.enqueue({ modelId: made.model.id, kind: 'rl', config: {}, dataKey: 'groups/1' });
  return (await store.jobs.claim(store.instanceId, 60_000))!;
}

const until = (check: () => unknown) => vi.waitFor(check, { timeout: 60_000, interval: 5 });

/** Its snapshot is at the last step with an event, like that of a learner. */
function copiesOf(job: ClaimedJob, everySteps: number) {
  const learner = {
    numSteps: 0,
    keys: [] as string[],
    numCommitted: 0,
    hold: Promise.resolve(),
    fault: null as Error | null,
  };
  const copies = new SnapshotCopies({
    store,
    blobs,
    job,
    everySteps,
    log: (line) => logged.push(line),
    copy: async (key) => {
      const { numSteps } = learner;
      learner.keys.push(key);
      await learner.hold;
      if (learner.fault !== null) throw learner.fault;
      const staged = await blobs.stageDirectory();
      await writeFile(join(staged, 'steps'), String(numSteps));
      await blobs.commitDirectory(staged, key);
      learner.numCommitted++;
      return numSteps;
    },
  });
  const step = (isLast = false) => copies.stepStored(++learner.numSteps, isLast);
  const isSettled = async (numSteps: number | null) =>
    await until(async () => {
      const snapshot = (await store.jobs.get(job.id))!.snapshot;
      expect(snapshot?.numGradientSteps ?? null).toBe(numSteps);
      expect(await blobs.listDirectories()).toEqual(snapshot === null ? [] : [snapshot.directoryKey]);
    });
  return { copies, learner, step, isSettled };
}

test('every few steps one copy replaces the one before, under the token of the claim', async () => {
  const job = await claimed();
  const { learner, step, isSettled } = copiesOf(job, 3);
  for (let told = 1; told <= 7; told++) {
    step();
    await isSettled(told < 3 ? null : told < 6 ? 3 : 6);
  }
  expect(learner.keys).toHaveLength(2);
  for (const key of learner.keys)
    expect(key).toMatch(new RegExp(`^snapshots/${job.id}/${job.fencingToken}-[0-9a-f-]{36}$`));
  step();
  step(true);
  await isSettled(6);
  expect(learner.keys).toHaveLength(2);
  expect(logged).toEqual([]);
});

test('at most one is on its way, and at most two are in the blobs', async () => {
  const { learner, step, isSettled } = copiesOf(await claimed(), 1);
  step();
  await isSettled(1);
  const open = Promise.withResolvers<void>();
  learner.hold = open.promise;
  for (let more = 0; more < 20; more++) step();
  await until(() => expect(learner.keys).toHaveLength(2));
  step();
  step();
  expect(await blobs.listDirectories()).toHaveLength(1);
  open.resolve();
  // The newest at its start, and directly afterwards the one that is due by then.
  await isSettled(23);
  expect(learner.keys).toHaveLength(3);
  step();
  await isSettled(24);
});

test('with an interval of 0 steps there is none', async () => {
  const { copies, learner, step } = copiesOf(await claimed(), 0);
  for (let told = 0; told < 10; told++) step();
  await copies.last(1000);
  expect(learner.keys).toEqual([]);
});

test('a failed copy is reported once and tried again at the next step', async () => {
  const { learner, step, isSettled } = copiesOf(await claimed(), 2);
  learner.fault = new StoreError('store.unavailable', 'the bucket answers with 500');
  for (let told = 1; told <= 5; told++) {
    step();
    await until(() => expect(learner.keys).toHaveLength(Math.max(0, told - 1)));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await isSettled(null);
  learner.fault = null;
  step();
  await isSettled(6);
  expect(logged.map((line) => line.replace(/^job \S+: /, ''))).toEqual([
    'cannot copy a snapshot to the blobs for now: StoreError: the bucket answers with 500',
    'copying snapshots to the blobs works again',
  ]);
});

test('a process that lost the job replaces nothing, and its copies are removed', async () => {
  const stale = await claimed();
  const one = copiesOf(stale, 1);
  one.step();
  await one.isSettled(1);
  const open = Promise.withResolvers<void>();
  one.learner.hold = open.promise;
  one.step();
  await until(() => expect(one.learner.keys).toHaveLength(2));
  // Another worker has it in the meantime, from the first copy.
  await store.jobs.release(stale.id, stale.fencingToken);
  const fresh = (await store.jobs.claim('another', 60_000))!;
  expect(fresh.snapshot).toMatchObject({ numGradientSteps: 1, directoryKey: one.learner.keys[0] });
  one.copies.end();
  open.resolve();
  // Before the commit there is also one directory, and nothing has been tried yet.
  await until(() => expect(one.learner.numCommitted).toBe(2));
  await one.isSettled(1);
  expect(await blobs.listDirectories()).toEqual([one.learner.keys[0]]);
  expect(logged).toEqual([]);
});

test('a copy of a step is named once the event of the step is in the store', async () => {
  const job = await claimed();
  const { copies, learner, isSettled } = copiesOf(job, 1);
  learner.numSteps = 2;
  copies.stepStored(1, false);
  await until(async () => expect(await blobs.listDirectories()).toHaveLength(1));
  expect((await store.jobs.get(job.id))?.snapshot).toBeNull();
  copies.stepStored(2, false);
  await isSettled(2);
  expect(learner.keys).toHaveLength(1);

  learner.numSteps = 4;
  copies.stepStored(3, false);
  await until(async () => expect(await blobs.listDirectories()).toHaveLength(2));
  copies.end();
  await isSettled(2);
});

test('a service that ends copies the steps since the last copy, within its time limit', async () => {
  const { copies, learner, step, isSettled } = copiesOf(await claimed(), 5);
  for (let told = 0; told < 5; told++) step();
  await isSettled(5);
  step();
  step();
  await copies.last(10_000);
  await isSettled(7);
  await copies.last(10_000);
  expect(learner.keys).toHaveLength(2);
  step();
  learner.hold = new Promise(() => {});
  await copies.last(10);
});

test('the remains of a copy after a crash are an orphan for the next process', async () => {
  const { step, isSettled, learner } = copiesOf(await claimed(), 1);
  step();
  await isSettled(1);
  const staged = await blobs.stageDirectory();
  await writeFile(join(staged, 'steps'), '2');
  await store.files.announce('snapshots/left/1-behind');
  await blobs.commitDirectory(staged, 'snapshots/left/1-behind');
  const orphans = async () => (await takeCensus(store, blobs)).orphans.map(({ key }) => key);
  expect(await orphans()).toEqual([]);
  await store.recoverAfterRestart();
  expect(await orphans()).toEqual(['snapshots/left/1-behind']);
  expect(await blobs.listDirectories()).toEqual([...learner.keys, 'snapshots/left/1-behind']);
});
