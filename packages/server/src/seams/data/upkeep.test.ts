import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import {
  type Blobs,
  checkOwnBlobs,
  type Files,
  FolderBlobs,
  sweepOrphans,
  type Trajectories,
  type UsageRecords,
} from '@trainyard/store';
import { expect, onTestFinished, test, vi } from 'vitest';

import { Upkeep, type UpkeepOptions } from './upkeep.ts';
import { openTestStore } from '../../testing/test-store.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

function fakeClock(): void {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) });
  onTestFinished(() => void vi.useRealTimers());
}

/** A store and blobs without old data. */
function fakes() {
  let trustedAt: number | null = null;
  return {
    store: {
      clock: {
        now: () => Date.now(),
        lastTrusted: async () => trustedAt,
        trust: async (at: number) => void (trustedAt = at),
      },
      purgeExpired: vi.fn<UpkeepOptions['store']['purgeExpired']>(async () => ({ numModels: 0, numRequests: 0 })),
      trajectories: {
        expire: vi.fn<Trajectories['expire']>(async () => ({ numJobs: 0, numLogs: 0, blobKeys: [] })),
        countData: vi.fn<Trajectories['countData']>(async () => ({ numKept: 100, numRemoved: 0 })),
      },
      usage: { merge: vi.fn<UsageRecords['merge']>(async () => 0) },
      files: {
        blobsId: async () => 'own',
        listReferenced: async () => ({ directoryKeys: [], blobKeys: [] }),
        listAnnounced: async () => [],
        listKnown: vi.fn<Files['listKnown']>(async () => []),
        learnNamed: async () => undefined,
        setOrphans: async () => undefined,
        forget: async () => undefined,
        isNamed: async () => false,
      },
    },
    discard: vi.fn<Blobs['discard']>(async () => true),
  };
}

const RULES = { which: 'known', ageMs: 7 * DAY_MS, binMs: 7 * DAY_MS, share: 1 } as const;

async function upkeepOf(
  { store, discard }: Pick<UpkeepOptions, 'store'> & { discard?: Blobs['discard'] },
  options: Partial<UpkeepOptions> = {},
) {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-upkeep-'));
  const blobs = await FolderBlobs.open(directory);
  await blobs.putJson('places/own', {});
  onTestFinished(async () => {
    await blobs.close();
    await rm(directory, { recursive: true });
  });
  if (discard !== undefined) blobs.discard = discard;
  const logged: string[] = [];
  const log = (line: string) => void logged.push(line);
  // Vitest's clock also controls `performance.now`.
  const upkeep = new Upkeep({ store, blobs, trajectoryDays: 30, orphans: RULES, trustsClock: false, log, ...options });
  return { logged, upkeep };
}

test('expired items are removed at the start and every ten minutes, also after a failure, until it is stopped', async () => {
  const parts = fakes();
  parts.store.purgeExpired.mockResolvedValueOnce({ numModels: 0, numRequests: 0 });
  parts.store.purgeExpired.mockRejectedValueOnce(new Error('the store is busy'));
  const { upkeep, logged } = await upkeepOf(parts);
  fakeClock();
  upkeep.start();
  for (let round = 1; round <= 4; round++) {
    await vi.waitUntil(() => parts.store.usage.merge.mock.calls.length === round, { timeout: 10_000 });
    await upkeep.settled();
    await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
  }
  await upkeep.settled();
  const numRounds = parts.store.purgeExpired.mock.calls.length;
  // One failure does not prevent the other work.
  expect(parts.store.trajectories.expire).toHaveBeenCalledTimes(numRounds);
  expect(parts.store.usage.merge).toHaveBeenCalledTimes(numRounds);
  expect(logged).toEqual(['expired data is kept for now: the store is busy']);
  await upkeep.stop();
  await vi.advanceTimersByTimeAsync(60 * MINUTE_MS);
  expect(parts.store.purgeExpired).toHaveBeenCalledTimes(numRounds);
});

test('trajectories go after so many days, usage is merged after one, in parts until nothing is left', async () => {
  const parts = fakes();
  parts.store.trajectories.expire.mockResolvedValueOnce({ numJobs: 2, numLogs: 1, blobKeys: ['groups/1', 'logs/1'] });
  parts.discard.mockRejectedValueOnce(new Error('I/O error'));
  parts.store.usage.merge.mockResolvedValueOnce(2000).mockResolvedValueOnce(7);
  const now = Date.now();
  parts.store.clock.now = () => now;
  const { upkeep, logged } = await upkeepOf(parts, { trajectoryDays: 2.5 });
  await upkeep.round();
  expect(parts.store.trajectories.expire.mock.calls).toEqual(Array(2).fill([now - 2.5 * DAY_MS, 100]));
  expect(parts.discard.mock.calls).toEqual([
    [{ kind: 'blob', key: 'groups/1' }, now],
    [{ kind: 'blob', key: 'logs/1' }, now],
  ]);
  expect(parts.store.usage.merge.mock.calls).toEqual(Array(3).fill([now - DAY_MS, 2000]));
  expect(logged).toEqual([
    'groups/1 is left as an orphan: Error: I/O error',
    'moved the data of 2 ended jobs and 1 logs older than 2.5 days to the bin (--trajectory-days)',
  ]);
  await upkeep.stop();
});

test('no more than the share of all data goes in a day, and a backlog over several', async () => {
  const parts = fakes();
  let numRemoved = 3;
  parts.store.trajectories.countData.mockImplementation(async () => ({ numKept: 100 - numRemoved, numRemoved }));
  parts.store.trajectories.expire.mockImplementation(async (_before, limit) => {
    numRemoved += limit;
    return { numJobs: limit, numLogs: 0, blobKeys: [] };
  });
  const { upkeep } = await upkeepOf(parts, { orphans: { ...RULES, share: 0.2 } });
  await upkeep.round();
  await upkeep.round();
  expect(numRemoved).toBe(20);
  numRemoved = 0;
  await upkeep.round();
  expect(numRemoved).toBe(20);
});

test('after a clock step nothing is removed or merged, with one log line and one notice', async () => {
  const parts = fakes();
  let now = Date.UTC(2026, 0, 1);
  let elapsed = 0;
  parts.store.clock.now = () => now;
  const { upkeep, logged } = await upkeepOf(parts, { monotonic: () => elapsed });
  await upkeep.round();
  const calls = () =>
    [
      parts.store.purgeExpired,
      parts.store.trajectories.expire,
      parts.store.usage.merge,
      parts.store.files.listKnown,
    ].map(({ mock }) => mock.calls.length);
  const before = calls();
  now += 40 * DAY_MS;
  await upkeep.round();
  elapsed += 7 * 3_600_000;
  now += 7 * 3_600_000;
  await upkeep.round();
  expect(calls()).toEqual(before);
  expect(logged).toEqual([expect.stringMatching(/40\.0 days after .* steady for a day.*--trust-clock/)]);
  expect(upkeep.notices).toEqual(logged);
  now -= 40 * DAY_MS;
  await upkeep.round();
  expect([upkeep.notices, calls().every((count, index) => count > before[index]!)]).toEqual([[], true]);
});

test('with 0 days trajectories are kept for ever', async () => {
  const parts = fakes();
  const { upkeep } = await upkeepOf(parts, { trajectoryDays: 0 });
  await upkeep.round();
  expect(parts.store.trajectories.expire).not.toHaveBeenCalled();
  expect(parts.store.usage.merge).toHaveBeenCalledOnce();
});

test('a stop waits for the current part and skips the rest', async () => {
  const parts = fakes();
  const { upkeep } = await upkeepOf(parts);
  parts.store.trajectories.expire.mockImplementation(async () => {
    void upkeep.stop();
    return { numJobs: 1, numLogs: 0, blobKeys: ['groups/1'] };
  });
  await upkeep.round();
  expect(parts.discard).toHaveBeenCalledOnce();
  expect(parts.store.trajectories.expire).toHaveBeenCalledOnce();
  expect(parts.store.usage.merge).not.toHaveBeenCalled();
});

test('old files of ended jobs and logs are removed; remains of a crash are removed at the next start', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-upkeep-'));
  let daysAgo = 40;
  const store = await openTestStore(directory, { clock: () => Date.now() - daysAgo * DAY_MS });
  const blobs = await FolderBlobs.open(join(directory, 'blobs'));
  onTestFinished(async () => {
    await Promise.all([store.close(), blobs.close()]);
    await rm(directory, { recursive: true });
  });
  const { id: entityId } = await store.keys.ensureEntity('local');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.models.create({ entityId, project: 'p', name: 'm', baseModel: 'b', lora });
  if (made.kind !== 'created') throw new Error('the model exists');
  const modelId = made.model.id;
  const submit = async (kind: 'rl' | 'sft', dataKey: string) => {
    await blobs.putJsonLines(dataKey, [1]);
    const job = await store.jobs.enqueue({ modelId, kind, config: {}, dataKey });
    return job!.id;
  };
  const fail = async () => {
    const held = await store.jobs.claim('w', 1000);
    await store.jobs.fail(held!.id, held!.fencingToken, 'x');
  };
  const log = async (blobKey: string) => {
    await blobs.putJsonLines(blobKey, [1]);
    const counts = { numGroups: 1, numTrajectories: 1, numExceptions: 0 };
    await store.trajectories.recordLog({ modelId, split: 'val', blobKey, ...counts, metrics: { 'val/reward': 1 } });
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

  // Simulates a crash between the rows and the files.
  const { upkeep, logged } = await upkeepOf({ store }, { trustsClock: true });
  await upkeep.round();
  expect(logged).toContain(
    'moved the data of 2 ended jobs and 1 logs older than 30 days to the bin (--trajectory-days)',
  );
  const left = ['groups/waiting', 'groups/young', 'logs/young'];
  expect((await blobs.listKeys()).toSorted()).toEqual([...left, 'groups/old', 'logs/old', 'sft/old'].toSorted());
  await store.files.setOrphans(['groups/old', 'logs/old', 'sft/old']);
  await checkOwnBlobs(store, blobs, { adopts: true });
  await sweepOrphans(store, blobs, { ...RULES, ageMs: 0 }, () => undefined);
  expect((await blobs.listKeys()).filter((key) => !key.startsWith('places/')).toSorted()).toEqual(left);

  // Without a crash both go at once; the waiting job has ended in the meantime.
  await store.jobs.cancel(waiting, 'enough');
  const later = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 31 * DAY_MS);
  await (await upkeepOf({ store }, { blobs, trustsClock: true })).upkeep.round();
  later.mockRestore();
  // Its job is still queued.
  expect((await blobs.listKeys()).filter((key) => !key.startsWith('places/'))).toEqual(['groups/young']);
  expect((await blobs.listBin()).map(({ key }) => key)).toContain('groups/waiting');
});
