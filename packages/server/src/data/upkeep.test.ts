import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs, removeOrphans } from '@trainyard/store';
import { expect, onTestFinished, test, vi } from 'vitest';

import { Upkeep, type UpkeepOptions } from './upkeep.ts';
import { openTestStore } from '../testing/test-store.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

function fakeClock(): void {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) });
  onTestFinished(() => void vi.useRealTimers());
}

/** A store and blobs in which nothing is old. */
function fakes() {
  return {
    store: {
      now: () => Date.now(),
      purgeExpired: vi.fn<UpkeepOptions['store']['purgeExpired']>(async () => ({ numModels: 0, numRequests: 0 })),
      expireTrajectories: vi.fn<UpkeepOptions['store']['expireTrajectories']>(async () => ({
        numJobs: 0,
        numLogs: 0,
        blobKeys: [],
      })),
      mergeUsage: vi.fn<UpkeepOptions['store']['mergeUsage']>(async () => 0),
    },
    blobs: { remove: vi.fn<UpkeepOptions['blobs']['remove']>(async () => true) },
  };
}

function upkeepOf(parts: Pick<UpkeepOptions, 'store' | 'blobs'>, trajectoryDays = 30) {
  const logged: string[] = [];
  return { logged, upkeep: new Upkeep({ ...parts, trajectoryDays, log: (line) => logged.push(line) }) };
}

test('what has expired is removed at the start and every ten minutes, also after a time that failed, until it is stopped', async () => {
  fakeClock();
  const parts = fakes();
  parts.store.purgeExpired.mockResolvedValueOnce({ numModels: 0, numRequests: 0 });
  parts.store.purgeExpired.mockRejectedValueOnce(new Error('the store is busy'));
  const { upkeep, logged } = upkeepOf(parts);
  upkeep.start();
  await vi.advanceTimersByTimeAsync(30 * MINUTE_MS);
  expect(parts.store.purgeExpired).toHaveBeenCalledTimes(4);
  // One failure keeps nothing else from being done.
  expect(parts.store.expireTrajectories).toHaveBeenCalledTimes(4);
  expect(parts.store.mergeUsage).toHaveBeenCalledTimes(4);
  expect(logged).toEqual(['what has expired stays for now: the store is busy']);
  await upkeep.stop();
  await vi.advanceTimersByTimeAsync(60 * MINUTE_MS);
  expect(parts.store.purgeExpired).toHaveBeenCalledTimes(4);
});

test('trajectories go after so many days, usage is merged after one, in parts until nothing is left', async () => {
  fakeClock();
  const parts = fakes();
  parts.store.expireTrajectories.mockResolvedValueOnce({ numJobs: 2, numLogs: 1, blobKeys: ['groups/1', 'logs/1'] });
  parts.blobs.remove.mockRejectedValueOnce(new Error('I/O error'));
  parts.store.mergeUsage.mockResolvedValueOnce(2000).mockResolvedValueOnce(7);
  const { upkeep, logged } = upkeepOf(parts, 2.5);
  const now = Date.now();
  upkeep.start();
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(parts.store.expireTrajectories.mock.calls).toEqual(Array(2).fill([now - 2.5 * DAY_MS, 500]));
  expect(parts.blobs.remove.mock.calls).toEqual([['groups/1'], ['logs/1']]);
  expect(parts.store.mergeUsage.mock.calls).toEqual(Array(3).fill([now - DAY_MS, 2000]));
  expect(logged).toEqual([
    'groups/1 stays until the next start: Error: I/O error',
    'removed the data of 2 jobs that ended and 1 logs from more than 2.5 days ago (--trajectory-days)',
  ]);
  await upkeep.stop();
});

test('with 0 days trajectories are kept for ever', async () => {
  const parts = fakes();
  const { upkeep } = upkeepOf(parts, 0);
  await upkeep.round();
  expect(parts.store.expireTrajectories).not.toHaveBeenCalled();
  expect(parts.store.mergeUsage).toHaveBeenCalledOnce();
});

test('a stop waits for the part in hand and leaves the rest', async () => {
  const parts = fakes();
  const { upkeep } = upkeepOf(parts);
  parts.store.expireTrajectories.mockImplementation(async () => {
    void upkeep.stop();
    return { numJobs: 1, numLogs: 0, blobKeys: ['groups/1'] };
  });
  await upkeep.round();
  expect(parts.blobs.remove).toHaveBeenCalledOnce();
  expect(parts.store.expireTrajectories).toHaveBeenCalledOnce();
  expect(parts.store.mergeUsage).not.toHaveBeenCalled();
});

test('the files of ended jobs and of logs go when they are old; what a crash leaves of them goes at the next start', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-upkeep-'));
  let daysAgo = 40;
  const store = await openTestStore(directory, { clock: () => Date.now() - daysAgo * DAY_MS });
  const blobs = await FolderBlobs.open(join(directory, 'blobs'));
  onTestFinished(async () => {
    await Promise.all([store.close(), blobs.close()]);
    await rm(directory, { recursive: true });
  });
  const { id: entityId } = await store.ensureEntity('local');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.createModel({ entityId, project: 'p', name: 'm', baseModel: 'b', lora });
  if (made.kind !== 'created') throw new Error('the model exists');
  const modelId = made.model.id;
  const submit = async (kind: 'rl' | 'sft', dataKey: string) => {
    await blobs.putJsonLines(dataKey, [1]);
    const job = await store.enqueueJob({ modelId, kind, config: {}, dataKey });
    return job!.id;
  };
  const fail = async () => {
    const held = await store.claimNextJob('w', 1000);
    await store.finishJobFailed(held!.id, held!.fencingToken, 'x');
  };
  const log = async (blobKey: string) => {
    await blobs.putJsonLines(blobKey, [1]);
    const counts = { numGroups: 1, numTrajectories: 1, numExceptions: 0 };
    await store.recordLog({ modelId, split: 'val', blobKey, ...counts, metrics: { 'val/reward': 1 } });
  };
  await submit('rl', 'groups/old');
  await submit('sft', 'sft/old');
  await fail();
  await fail();
  await log('logs/old');
  const waiting = await submit('rl', 'groups/waiting');
  daysAgo = 29;
  await submit('rl', 'groups/young');
  await log('logs/young');
  daysAgo = 0;

  // A crash between the rows and the files.
  const { upkeep, logged } = upkeepOf({ store, blobs: { remove: async () => false } });
  await upkeep.round();
  expect(logged).toEqual([
    'removed the data of 2 jobs that ended and 1 logs from more than 30 days ago (--trajectory-days)',
  ]);
  const left = ['groups/waiting', 'groups/young', 'logs/young'];
  expect((await blobs.listKeys()).toSorted()).toEqual([...left, 'groups/old', 'logs/old', 'sft/old'].toSorted());
  await removeOrphans(store, blobs, ['groups/', 'sft/', 'logs/']);
  expect((await blobs.listKeys()).toSorted()).toEqual(left);

  // Without a crash they go at once; what was waiting has ended meanwhile.
  await store.cancelJob(waiting, 'enough');
  const later = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 31 * DAY_MS);
  await upkeepOf({ store, blobs }).upkeep.round();
  later.mockRestore();
  expect(await blobs.listKeys()).toEqual(['groups/young']); // its job is still queued
});
