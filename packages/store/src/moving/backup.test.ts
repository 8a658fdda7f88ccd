import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, test } from 'vitest';
import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { checkOwnBlobs } from '../blobs/own-blobs.ts';
import type { Blobs } from '../contract/blobs.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { openStore } from '../open-store.ts';
import type { SqlStore } from '../sql-store.ts';
import { fillStore } from '../testing/filled-store.ts';
import { addJob, addModel, claim } from '../testing/harness.ts';
import { snapshotsOf } from '../parts/jobs/job-lifecycle.ts';
import { checkBackup, makeBackup, restoreBackup } from './backup.ts';
import { digestBlobs } from './copy-blobs.ts';
import { copyDatabase, digestDatabase } from './copy-database.ts';
import { digestOf } from './table-digest.ts';
import { TABLE_NAMES } from './table-names.ts';

let folder: string;
let database: StoreLocation;
let store: SqlStore;
let blobs: FolderBlobs;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-backup-'));
  database = { kind: 'sqlite', path: join(folder, 'trainyard.sqlite') };
  store = await openStore(database);
  blobs = await FolderBlobs.open(join(folder, 'blobs'));
  await checkOwnBlobs(store, blobs);
  await fillStore(store);
  const { blobKeys, directoryKeys } = await store.files.listReferenced();
  for (const key of directoryKeys) await addDirectory(key);
  for (const key of blobKeys) if (!(await blobs.has(key))) await blobs.putJsonLines(key, [{ key }]);
  return async () => {
    await store.close();
    await blobs.close();
    await rm(folder, { recursive: true });
  };
});

async function addDirectory(key: string): Promise<void> {
  const staged = await blobs.stageDirectory();
  await mkdir(join(staged, 'below'));
  for (const name of ['weights.bin', 'below/config.json']) await writeFile(join(staged, name), `${name} of ${key}`);
  await blobs.commitDirectory(staged, key);
}

test('every table of the schema is copied', () => {
  const sql = new DatabaseSync((database as { path: string }).path, { readOnly: true });
  const rows = sql.prepare(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`).all();
  sql.close();
  expect(new Set(rows.map(({ name }) => name))).toEqual(new Set(TABLE_NAMES));
});

test('a backup of a store in use has its rows and the blobs that they name, and nothing else; it comes back whole', async () => {
  await blobs.putJson('groups/nobodys', 1);
  const backup = join(folder, 'backup');
  const manifest = await makeBackup({ database, blobs }, backup);
  expect(manifest.digest).toBe(digestOf(await digestDatabase(database)));
  expect(manifest.files.map(({ name }) => name)).toContain('directories/checkpoints/1/below/config.json');
  expect(manifest.files.map(({ name }) => name)).not.toContain('files/groups/nobodys.json.zst');
  expect((await readdir(backup)).toSorted()).toEqual(['backup.json', 'blobs', 'trainyard.sqlite']);
  expect(await checkBackup(backup)).toEqual(manifest);

  const restored: StoreLocation = { kind: 'sqlite', path: join(folder, 'restored.sqlite') };
  const other = await FolderBlobs.open(join(folder, 'other'));
  await restoreBackup(backup, { database: restored, blobs: other });
  expect(await digestBlobs(other)).toEqual(manifest.files);
  const again = await openStore(restored);
  await checkOwnBlobs(again, other);
  expect(await again.files.listReferenced()).toEqual(await store.files.listReferenced());
  for (const each of [again, other]) await each.close();
  await expect(makeBackup({ database, blobs }, backup)).rejects.toThrow('it already exists');
});

test('snapshots of running jobs, of which the next may come at any moment, are in no backup', async () => {
  const model = await addModel(store, 'trained-now');
  const { dataKey } = await addJob(store, model.id);
  await blobs.putJsonLines(dataKey, [{ key: dataKey }]);
  const job = await claim(store);
  const directoryKey = `${snapshotsOf(job.id)}1`;
  await addDirectory(directoryKey);
  await store.jobs.keepSnapshot(job.id, job.fencingToken, { directoryKey, numGradientSteps: 5 });
  const snapshots = (manifest: { files: readonly { name: string }[] }) =>
    manifest.files.filter(({ name }) => name.includes('snapshots'));
  expect(snapshots(await makeBackup({ database, blobs }, join(folder, 'before')))).toEqual([]);
  await blobs.removeDirectory(directoryKey);
  const backup = join(folder, 'after');
  expect(snapshots(await makeBackup({ database, blobs }, backup))).toEqual([]);
  await checkBackup(backup);
});

test('data removed by a service between the listing and the copy are missing in the next listing', async () => {
  const model = (await store.models.list({})).items[0]!;
  let isRemoved = false;
  const leaving = new Proxy<Blobs>(blobs, {
    get: (target, name) => {
      if (name === 'rawFiles' && !isRemoved) {
        isRemoved = true;
        return async (key: string) => {
          const { directoryKeys } = (await store.models.delete(model.id))!;
          for (const gone of directoryKeys) await blobs.removeDirectory(gone);
          return await target.rawFiles(key);
        };
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const backup = join(folder, 'backup');
  const manifest = await makeBackup({ database, blobs: leaving }, backup);
  expect(manifest.files.map(({ name }) => name).filter((name) => name.includes('checkpoints/1'))).toEqual([]);
  expect(await checkBackup(backup)).toEqual(manifest);
});

test('an interrupted one leaves no folder, and can be repeated in the same place', async () => {
  const interrupted = new AbortController();
  const slow = new Proxy<Blobs>(blobs, {
    get: (target, name) => {
      if (name === 'rawFiles') interrupted.abort(new Error('interrupted'));
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const backup = join(folder, 'backup');
  const { signal } = interrupted;
  await expect(makeBackup({ database, blobs: slow }, backup, { signal })).rejects.toThrow('interrupted');
  expect(await readdir(folder)).not.toContain('backup');
  const manifest = await makeBackup({ database, blobs }, backup);
  await expect(makeBackup({ database, blobs }, backup)).rejects.toThrow('it already exists');
  expect(await checkBackup(backup)).toEqual(manifest);
});

test('a database with missing blobs gives no backup', async () => {
  await blobs.removeDirectory('checkpoints/1');
  await expect(makeBackup({ database, blobs }, join(folder, 'backup'))).rejects.toMatchObject({
    code: 'store.blob_missing',
  });
  await expect(checkBackup(join(folder, 'backup'))).rejects.toThrow('is not a complete backup');
});

test('damage to a backup is found before anything is restored', async () => {
  const whole = join(folder, 'backup');
  await makeBackup({ database, blobs }, whole);
  const damages: [how: (copy: string) => Promise<unknown>, code: string][] = [
    [(copy) => appendFile(join(copy, 'blobs/directories/checkpoints/1.dir/weights.bin'), 'x'), 'store.blob_corrupt'],
    [(copy) => rm(join(copy, 'blobs/files/groups'), { recursive: true }), 'store.blob_corrupt'],
    [
      async (copy) => {
        const sql = new DatabaseSync(join(copy, 'trainyard.sqlite'));
        sql.exec(`update entities set name = 'another'`);
        sql.close();
      },
      'store.corrupt',
    ],
    [(copy) => rm(join(copy, 'backup.json')), 'store.unavailable'],
  ];
  for (const [index, [damage, code]] of damages.entries()) {
    const copy = join(folder, `copy-${index}`);
    await cp(whole, copy, { recursive: true });
    await damage(copy);
    const target: StoreLocation = { kind: 'sqlite', path: join(folder, 'target.sqlite') };
    const other = await FolderBlobs.open(join(folder, 'target-blobs'));
    await expect(restoreBackup(copy, { database: target, blobs: other })).rejects.toMatchObject({ code });
    expect(await other.listKeys()).toEqual([]);
    await other.close();
    await expect(readFile(target.path)).rejects.toMatchObject({ code: 'ENOENT' });
  }
});

/** Expects the reason of the signal, and nothing in the target, which another restore then fills. */
async function expectInterrupted(damaged: string, whole: string, signal: AbortSignal): Promise<void> {
  const target: StoreLocation = { kind: 'sqlite', path: join(folder, 'target.sqlite') };
  const other = await FolderBlobs.open(join(folder, 'target-blobs'));
  const to = { database: target, blobs: other };
  await expect(restoreBackup(damaged, to, { signal })).rejects.toThrow('interrupted');
  expect([...(await other.listKeys()), ...(await other.listDirectories())]).toEqual([]);
  expect((await readdir(folder)).filter((name) => name.startsWith('target.sqlite'))).toEqual([]);
  await restoreBackup(whole, to);
  await other.close();
}

/** Signal that aborts in the next turn of the event loop, like one of the system. */
function nextTurn(): AbortSignal {
  const interrupted = new AbortController();
  setImmediate(() => interrupted.abort(new Error('interrupted')));
  return interrupted.signal;
}

test('a restore is interrupted while it checks the rows of a backup, before it knows that they are damaged', async () => {
  const [backup, damaged] = [join(folder, 'backup'), join(folder, 'damaged')];
  const sql = new DatabaseSync((database as { path: string }).path);
  const insert = sql.prepare(`insert into entities (id, name, created_at) values (?, ?, 0)`);
  for (let number = 0; number < 2_000; number++) insert.run(`${number}`, `entity-${number}`);
  sql.close();
  await makeBackup({ database, blobs }, backup);
  await cp(backup, damaged, { recursive: true });
  const damage = new DatabaseSync(join(damaged, 'trainyard.sqlite'));
  damage.exec(`update entities set name = 'another' where name = 'entity-1999'`);
  damage.close();
  await expect(checkBackup(damaged)).rejects.toMatchObject({ code: 'store.corrupt' });
  await expectInterrupted(damaged, backup, nextTurn());
  // Also if only rows of a file are read.
  await expect(digestDatabase(database, { signal: nextTurn() })).rejects.toThrow('interrupted');
});

test('and in the middle of a file', async () => {
  const [backup, damaged] = [join(folder, 'backup'), join(folder, 'damaged')];
  await makeBackup({ database, blobs }, backup);
  await cp(backup, damaged, { recursive: true });
  // A sparse file that takes hours to read and no space.
  await truncate(join(damaged, 'blobs/directories/checkpoints/1.dir/weights.bin'), 2 ** 40);
  const interrupted = new AbortController();
  const { signal } = interrupted;
  setTimeout(() => interrupted.abort(new Error('interrupted')), 200);
  await expect(checkBackup(damaged, { signal })).rejects.toThrow('interrupted');
  await expectInterrupted(damaged, backup, signal);
});

test('a restore interrupted after the blobs continues with them', async () => {
  const backup = join(folder, 'backup');
  const { files } = await makeBackup({ database, blobs }, backup);
  const other = await FolderBlobs.open(join(folder, 'other'));
  const taken: StoreLocation = { kind: 'sqlite', path: join(folder, 'taken.sqlite') };
  await copyDatabase(database, taken, { isAlone: false });
  await expect(restoreBackup(backup, { database: taken, blobs: other })).rejects.toThrow('is not empty');
  const free: StoreLocation = { kind: 'sqlite', path: join(folder, 'free.sqlite') };
  await restoreBackup(backup, { database: free, blobs: other });
  expect(await digestBlobs(other)).toEqual(files);
  await other.removeDirectory('checkpoints/1');
  const staged = await other.stageDirectory();
  await other.commitDirectory(staged, 'checkpoints/1');
  await expect(restoreBackup(backup, { database: free, blobs: other })).rejects.toMatchObject({
    code: 'store.blob_exists',
  });
  await other.close();
});
