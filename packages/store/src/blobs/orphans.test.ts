import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FolderBlobs } from './folder-blobs.ts';
import { removeOrphans } from './orphans.ts';
import { openSqliteStore } from '../open-sqlite-store.ts';
import type { SqlStore } from '../sql-store.ts';
import { addJob, addModel, claim, train } from '../testing/harness.ts';

let directory: string;
let store: SqlStore;
let blobs: FolderBlobs;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-orphans-'));
  store = await openSqliteStore(join(directory, 'store.sqlite'));
  blobs = await FolderBlobs.open(join(directory, 'blobs'));
});
afterEach(async () => {
  await store.close();
  await blobs.close();
  await rm(directory, { recursive: true });
});

it('what a row names stays, also for a running job; what none names goes; other prefixes are left alone', async () => {
  for (const key of ['checkpoints/1', 'checkpoints/2', 'checkpoints/9', 'models/9']) {
    await blobs.commitDirectory(await blobs.stageDirectory(), key);
  }
  const model = await addModel(store);
  await train(store, model.id, 'checkpoints/1');
  const job = await addJob(store, model.id);
  await claim(store);
  await store.deleteCheckpoints(model.id, [1]); // the running job still starts from it
  for (const key of [job.dataKey, 'groups/orphan', 'other/orphan']) await blobs.putJson(key, 1);

  const removed = await removeOrphans(store, blobs, ['checkpoints/', 'groups/']);
  expect(removed.blobKeys).toEqual(['groups/orphan']);
  expect(new Set(removed.directoryKeys)).toEqual(new Set(['checkpoints/2', 'checkpoints/9']));
  expect(new Set(await blobs.listDirectories())).toEqual(new Set(['checkpoints/1', 'models/9']));
  expect(new Set(await blobs.listKeys())).toEqual(new Set([job.dataKey, 'other/orphan']));
});
