import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs, StoreError } from '@trainyard/store';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { SnapshotCopier } from './snapshot-copier.ts';

let root: string;
let blobs: FolderBlobs;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'copier-'));
  blobs = await FolderBlobs.open(join(root, 'blobs'));
});
afterEach(async () => {
  await blobs.close();
  await rm(root, { recursive: true });
});

/** A machine on which the job has taken that many steps. */
function machine(name: string, numSteps = 0) {
  const work = join(root, name);
  const version = `job/step-${numSteps}`;
  if (numSteps > 0) {
    mkdirSync(join(work, version), { recursive: true });
    writeFileSync(join(work, version, 'weights'), `after ${numSteps}`);
    const record = {
      fingerprint: 'f',
      version,
      stepMetrics: Array.from({ length: numSteps }, (_, loss) => ({ loss })),
    };
    writeFileSync(join(work, 'job', 'progress.json'), JSON.stringify(record));
  }
  const has = () => readdirSync(join(work, 'job')).toSorted();
  return { work, has, copier: new SnapshotCopier(blobs, work) };
}

const snapshot = (numGradientSteps: number) => ({ directoryKey: 'snapshots/job/1-a', numGradientSteps });

test('a snapshot copied on one machine is found on another, which has the steps after it', async () => {
  const [one, two] = [machine('one', 3), machine('two')];
  expect(await two.copier.copy('job', 'snapshots/none')).toBeNull();
  expect(await one.copier.copy('job', 'snapshots/job/1-a')).toBe(3);
  expect(await blobs.listDirectories()).toEqual(['snapshots/job/1-a']);
  expect(one.has()).toEqual(['progress.json', 'step-3']);
  await rm(one.work, { recursive: true });

  const said = await two.copier.bring('job', snapshot(3));
  expect(said).toBe('it continues after gradient step 3 from its snapshot in the blobs');
  expect(two.has()).toEqual(['progress.json', 'step-3']);
  expect(readFileSync(join(two.work, 'job', 'step-3', 'weights'), 'utf8')).toBe('after 3');
  expect(await two.copier.bring('job', snapshot(3))).toBeNull();
});

test('a machine with a later snapshot continues from its own', async () => {
  await machine('one', 3).copier.copy('job', 'snapshots/job/1-a');
  const further = machine('further', 4);
  expect(await further.copier.bring('job', snapshot(3))).toBeNull();
  expect(further.has()).toEqual(['progress.json', 'step-4']);
});

test('a missing or damaged snapshot is reported, and unreachable blobs are awaited', async () => {
  const { copier } = machine('two');
  expect(await copier.bring('job', snapshot(3))).toBe('its snapshot in the blobs is missing, so it starts without one');
  const staged = await blobs.stageDirectory();
  await blobs.commitDirectory(staged, 'snapshots/job/1-a');
  expect(await copier.bring('job', snapshot(3))).toContain('its snapshot in the blobs is damaged');
  const reading = vi.spyOn(blobs, 'localDirectory');
  reading.mockRejectedValueOnce(new StoreError('store.blob_corrupt', 'other bytes than were stored'));
  expect(await copier.bring('job', snapshot(3))).toContain('other bytes than were stored');
  reading.mockRejectedValueOnce(new StoreError('store.unavailable', 'no bucket'));
  await expect(copier.bring('job', snapshot(3))).rejects.toMatchObject({ code: 'store.unavailable' });
});

test('blobs that take nothing leave nothing here', async () => {
  const one = machine('one', 3);
  vi.spyOn(blobs, 'commitDirectory').mockRejectedValueOnce(new StoreError('store.unavailable', 'no bucket'));
  await expect(one.copier.copy('job', 'snapshots/job/1-a')).rejects.toMatchObject({ code: 'store.unavailable' });
  expect(one.has()).toEqual(['progress.json', 'step-3']);
  expect(
    readdirSync(join(root, 'blobs', 'staging')).flatMap((area) => readdirSync(join(root, 'blobs', 'staging', area))),
  ).toEqual([]);
});
