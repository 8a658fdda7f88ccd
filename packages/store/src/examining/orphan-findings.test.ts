import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';

import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { checkOwnBlobs } from '../blobs/own-blobs.ts';
import { openSqliteStore } from '../open-sqlite-store.ts';
import { orphanFindings } from './orphan-findings.ts';

let folder: string;
let path: string;
let root: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-findings-'));
  [path, root] = [join(folder, 'trainyard.sqlite'), join(folder, 'blobs')];
  return () => rmSync(folder, { recursive: true });
});

const look = async () => await Array.fromAsync(orphanFindings({ kind: 'sqlite', path }, { kind: 'folder', root }));

test('orphans, the bin and unknown blobs are listed, and a lost database is reported', async () => {
  expect(await look()).toEqual([]);
  const [store, blobs] = [await openSqliteStore(path), await FolderBlobs.open(root)];
  await checkOwnBlobs(store, blobs);
  expect(await look()).toMatchObject([{ name: 'orphans', problem: null }]);
  for (const key of ['groups/left', 'logs/binned']) {
    await store.files.announce(key);
    await blobs.putJson(key, 1);
  }
  await store.recoverAfterRestart();
  await blobs.discard({ kind: 'blob', key: 'logs/binned' }, 1_000);
  expect(await look()).toMatchObject([
    {
      subject: expect.stringMatching(/1 blobs, 0 referenced, 1 orphans \(groups\/left\), 1 in the bin$/),
      problem: null,
    },
  ]);
  await blobs.putJson('groups/unknown', 1);
  expect(await look()).toMatchObject([
    { problem: expect.stringMatching(/^1 blobs are unknown .*groups\/unknown.*--adopt-blobs.*--remove-orphans all/) },
  ]);
  await blobs.putJson('places/another', {});
  expect(await look()).toMatchObject([{ problem: expect.stringContaining('another service has claimed the blobs') }]);
  await Promise.all([store.close(), blobs.close()]);
  for (const name of readdirSync(folder)) if (name.startsWith('trainyard.sqlite')) rmSync(join(folder, name));
  expect(await look()).toMatchObject([{ problem: expect.stringMatching(/is missing.*trainyard restore/) }]);
  writeFileSync(path, '');
  expect(await look()).toMatchObject([{ problem: expect.stringMatching(/is empty.*--adopt-blobs/) }]);
});
