import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { syncPath } from '../blobs/durable-file.ts';
import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { placeKey } from '../blobs/own-blobs.ts';
import type { Blobs } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { SqliteSql } from '../drivers/sqlite/sqlite-sql.ts';
import { openTables } from '../parts/tables.ts';
import { SNAPSHOTS } from '../parts/jobs/job-lifecycle.ts';
import { type BlobDigest, type BlobKeys, copyBlobs, digestBlobs } from './copy-blobs.ts';
import { copyDatabase, digestDatabase } from './copy-database.ts';
import { digestOf, type TableDigest } from './table-digest.ts';

const MANIFEST = 'backup.json';
/**
 * A running service removes unreferenced files. Files removed between reading the database and the copy are
 * not in the next reading.
 */
const MAX_LOOKS = 3;

export interface BackupManifest {
  readonly format: 1;
  /** ISO 8601, on this machine's clock. */
  readonly madeAt: string;
  readonly tables: readonly TableDigest[];
  /** One digest of all tables. */
  readonly digest: string;
  readonly files: readonly BlobDigest[];
}

/** Places of the parts of a backup, as in a data folder. */
const partsOf = (folder: string) => ({
  database: { kind: 'sqlite', path: join(folder, 'trainyard.sqlite') } as const,
  blobs: join(folder, 'blobs'),
  manifest: join(folder, MANIFEST),
});

/**
 * Writes the database as of one moment, and the blobs that it names, into a new folder; a service may
 * continue meanwhile. The manifest is written last: a folder without one is no backup. A failure or
 * interruption removes the folder.
 *
 * @param folder must not exist
 * @throws {StoreError} as `copyDatabase`; `store.blob_missing` if the database names a missing blob
 */
export async function makeBackup(
  from: { readonly database: StoreLocation; readonly blobs: Blobs },
  folder: string,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<BackupManifest> {
  await makeNewFolder(folder);
  try {
    return await fillFolder(from, folder, signal);
  } catch (error) {
    // It would hold unmaintained rows and block the next attempt.
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function fillFolder(
  from: Parameters<typeof makeBackup>[0],
  folder: string,
  signal: AbortSignal | undefined,
): Promise<BackupManifest> {
  const parts = partsOf(folder);
  const blobs = await FolderBlobs.open(parts.blobs);
  try {
    for (let look = 1; ; look++) {
      const database = { kind: 'sqlite', path: join(folder, `look-${look}.sqlite`) } as const;
      const tables = await copyDatabase(from.database, database, { isAlone: false, ...(signal && { signal }) });
      const keys = await namedKeys(database.path);
      const copied = await copyBlobs(from.blobs, blobs, { keys, ...(signal && { signal }) });
      const { files } = copied;
      // Files of an upload are named before they arrive.
      const missing = copied.missing.filter((key) => !key.startsWith('uploads/'));
      if (missing.length > 0 && look < MAX_LOOKS) {
        await rm(database.path);
        continue;
      }
      if (missing.length > 0)
        throw new StoreError('store.blob_missing', `the database references missing blobs: ${missing.join(', ')}`);
      makeOneFile(database.path);
      await rename(database.path, parts.database.path);
      await removeOthers(blobs, keys);
      const madeAt = new Date().toISOString();
      const manifest: BackupManifest = { format: 1, madeAt, tables, digest: digestOf(tables), files };
      await writeFile(parts.manifest, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
      for (const path of [parts.manifest, folder]) await syncPath(path);
      return manifest;
    }
  } finally {
    await blobs.close();
  }
}

/**
 * Reads the whole backup and compares it with its manifest.
 * @throws {StoreError} `store.unavailable` if it is no backup, `store.corrupt` or `store.blob_corrupt` if it
 *   is damaged
 */
export async function checkBackup(
  folder: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<BackupManifest> {
  const parts = partsOf(folder);
  const manifest = await readManifest(parts.manifest);
  const found = await digestDatabase(parts.database, options);
  if (digestOf(found) !== manifest.digest)
    throw new StoreError('store.corrupt', `the database of the backup ${folder} is damaged: its digest does not match`);
  const blobs = await FolderBlobs.open(parts.blobs);
  try {
    const there = new Map((await digestBlobs(blobs, options)).map((file) => [file.name, file.sha256]));
    for (const { name, sha256 } of manifest.files)
      if (there.get(name) !== sha256)
        throw new StoreError(
          'store.blob_corrupt',
          `${name} in the backup ${folder} is ${there.has(name) ? 'damaged' : 'missing'}`,
        );
  } finally {
    await blobs.close();
  }
  return manifest;
}

/**
 * Checks a backup, copies it into an empty database and its blobs, and reads both back. Blobs are copied
 * first, so that the database never names missing ones.
 *
 * @param to `readBack`: as for `copyBlobs`
 * @param options `manifest`: from a recent `checkBackup`; without it the backup is checked here
 * @throws {StoreError} as `checkBackup`, `copyDatabase` and `copyBlobs`
 */
export async function restoreBackup(
  folder: string,
  to: { readonly database: StoreLocation; readonly blobs: Blobs; readonly readBack?: Blobs },
  { manifest: checked, ...options }: { readonly signal?: AbortSignal; readonly manifest?: BackupManifest } = {},
): Promise<BackupManifest> {
  const manifest = checked ?? (await checkBackup(folder, options));
  const parts = partsOf(folder);
  const blobs = await FolderBlobs.open(parts.blobs);
  try {
    await copyBlobs(blobs, to.blobs, { ...(to.readBack && { readBack: to.readBack }), ...options });
  } finally {
    await blobs.close();
  }
  await copyDatabase(parts.database, to.database, { isAlone: false, ...options });
  return manifest;
}

async function makeNewFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'EEXIST' ? 'it already exists' : (error as Error).message;
    throw new StoreError('store.unavailable', `cannot create the folder ${folder}: ${why}`, { cause: error });
  }
}

async function readManifest(path: string): Promise<BackupManifest> {
  let manifest: Partial<BackupManifest>;
  try {
    manifest = JSON.parse(await readFile(path, 'utf8')) as Partial<BackupManifest>;
  } catch (error) {
    throw new StoreError('store.unavailable', `${path} is not a complete backup: ${(error as Error).message}`);
  }
  if (manifest.format === 1) return manifest as BackupManifest;
  throw new StoreError('store.unavailable', `${path} has the backup format ${manifest.format}; supported is 1`);
}

/** Removes the separate log, so that the file can be read from read-only media. */
function makeOneFile(path: string): void {
  using connection = new DatabaseSync(path);
  connection.exec('pragma journal_mode = delete');
}

async function namedKeys(path: string): Promise<BlobKeys> {
  const sql = new SqliteSql(path);
  try {
    const { checkpoints, logs, blobPlaces } = openTables(sql);
    const place = await blobPlaces.id();
    const places = place === null ? [] : [placeKey(place)];
    // A running job replaces its snapshot every few steps; without one it starts from its checkpoint.
    const directoryKeys = (await checkpoints.listDirectoryKeys()).filter((key) => !key.startsWith(SNAPSHOTS));
    return {
      directoryKeys,
      blobKeys: [...(await logs.listBlobKeys()), ...places],
    };
  } finally {
    await sql.close();
  }
}

/** Removes blobs of an earlier attempt that the last one does not name. */
async function removeOthers(blobs: Blobs, { blobKeys, directoryKeys }: BlobKeys): Promise<void> {
  const [files, directories] = [new Set(blobKeys), new Set(directoryKeys)];
  for (const key of await blobs.listKeys()) if (!files.has(key)) await blobs.remove(key);
  for (const key of await blobs.listDirectories()) if (!directories.has(key)) await blobs.removeDirectory(key);
}
