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
import { openTables } from '../tables/tables.ts';
import { SNAPSHOTS } from '../lifecycles/job-lifecycle.ts';
import { type BlobDigest, type BlobKeys, copyBlobs, digestBlobs } from './copy-blobs.ts';
import { copyDatabase, digestDatabase } from './copy-database.ts';
import { digestOf, type TableDigest } from './table-digest.ts';

const MANIFEST = 'backup.json';
/** A running service removes what nobody names any more: what was removed between the look at the database and the copy is not in the next look. */
const MAX_LOOKS = 3;

/** The content of a backup, as it says itself. */
export interface BackupManifest {
  readonly format: 1;
  /** ISO 8601, by the clock of this machine. */
  readonly madeAt: string;
  readonly tables: readonly TableDigest[];
  /** One digest of all tables. */
  readonly digest: string;
  readonly files: readonly BlobDigest[];
}

/** Where the parts of a backup lie: as in a data folder. */
const partsOf = (folder: string) => ({
  database: { kind: 'sqlite', path: join(folder, 'trainyard.sqlite') } as const,
  blobs: join(folder, 'blobs'),
  manifest: join(folder, MANIFEST),
});

/**
 * Writes the database as it is at one moment, and the blobs that it names, into a new folder; a service may go on meanwhile. The manifest comes last: a folder
 * without one is no backup. One that fails or is interrupted leaves no folder.
 *
 * @param folder must not be there yet
 * @throws {StoreError} as of `copyDatabase`; `store.blob_missing` when the database names what is not there
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
    // It would hold rows that nobody looks after, and be in the way of the next one.
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
      // Files of an upload are named before they come.
      const missing = copied.missing.filter((key) => !key.startsWith('uploads/'));
      if (missing.length > 0 && look < MAX_LOOKS) {
        await rm(database.path);
        continue;
      }
      if (missing.length > 0)
        throw new StoreError('store.blob_missing', `the database names ${missing.join(', ')}, which is not there`);
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
 * Reads the whole of a backup and compares it with what it says.
 * @throws {StoreError} `store.unavailable` when it is none, `store.corrupt` or `store.blob_corrupt` when it is damaged
 */
export async function checkBackup(
  folder: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<BackupManifest> {
  const parts = partsOf(folder);
  const manifest = await readManifest(parts.manifest);
  const found = await digestDatabase(parts.database, options);
  if (digestOf(found) !== manifest.digest)
    throw new StoreError('store.corrupt', `the database of the backup ${folder} is not the one that was written`);
  const blobs = await FolderBlobs.open(parts.blobs);
  try {
    const there = new Map((await digestBlobs(blobs, options)).map((file) => [file.name, file.sha256]));
    for (const { name, sha256 } of manifest.files)
      if (there.get(name) !== sha256)
        throw new StoreError(
          'store.blob_corrupt',
          `${name} of the backup ${folder} is ${there.has(name) ? 'damaged' : 'missing'}`,
        );
  } finally {
    await blobs.close();
  }
  return manifest;
}

/**
 * Puts a backup into an empty database and its blobs, after the whole of it was checked; both are read again. The blobs come first, so that the database never
 * names what is not there.
 *
 * @param to `readBack`: as of `copyBlobs`
 * @param options `manifest`: as `checkBackup` gave it just now; without it the backup is checked here
 * @throws {StoreError} as of `checkBackup`, `copyDatabase` and `copyBlobs`
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
    const why = (error as NodeJS.ErrnoException).code === 'EEXIST' ? 'it is there already' : (error as Error).message;
    throw new StoreError('store.unavailable', `cannot create the folder ${folder}: ${why}`, { cause: error });
  }
}

async function readManifest(path: string): Promise<BackupManifest> {
  let manifest: Partial<BackupManifest>;
  try {
    manifest = JSON.parse(await readFile(path, 'utf8')) as Partial<BackupManifest>;
  } catch (error) {
    throw new StoreError('store.unavailable', `${path} is no whole backup: ${(error as Error).message}`);
  }
  if (manifest.format === 1) return manifest as BackupManifest;
  throw new StoreError('store.unavailable', `${path} is a backup of the format ${manifest.format}, not 1`);
}

/** Without a log beside it, so that it can be read where nothing can be written. */
function makeOneFile(path: string): void {
  using connection = new DatabaseSync(path);
  connection.exec('pragma journal_mode = delete');
}

/** Whatever a database needs of its blobs. */
async function namedKeys(path: string): Promise<BlobKeys> {
  const sql = new SqliteSql(path);
  try {
    const { checkpoints, logs, blobPlaces } = openTables(sql);
    const place = await blobPlaces.id();
    const places = place === null ? [] : [placeKey(place)];
    // Of a running job another takes the place of its snapshot every few steps; without one it begins at its checkpoint.
    const directoryKeys = (await checkpoints.listDirectoryKeys()).filter((key) => !key.startsWith(SNAPSHOTS));
    return {
      directoryKeys,
      blobKeys: [...(await logs.listBlobKeys()), ...places],
    };
  } finally {
    await sql.close();
  }
}

/** Blobs of an earlier look, which the last one does not name any more. */
async function removeOthers(blobs: Blobs, { blobKeys, directoryKeys }: BlobKeys): Promise<void> {
  const [files, directories] = [new Set(blobKeys), new Set(directoryKeys)];
  for (const key of await blobs.listKeys()) if (!files.has(key)) await blobs.remove(key);
  for (const key of await blobs.listDirectories()) if (!directories.has(key)) await blobs.removeDirectory(key);
}
