import { existsSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import {
  addressProblem,
  type BackupManifest,
  type BlobDigest,
  type BlobLocation,
  type Blobs,
  checkBackup,
  copyBlobs,
  copyDatabase,
  makeBackup,
  openBlobs,
  restoreBackup,
  type StoreLocation,
  type TableDigest,
} from '@trainyard/store';

import { claimDataDirectory, dataPaths, refuseTakenDataDirectory } from '../../seams/data/data-directory.ts';
import { setDatabaseAside } from '../../seams/data/set-database-aside.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { ServiceConfig } from '../settings/config.ts';

/** Each file of a bucket is read soon after it came, and the next needs its space. */
const BUCKET_CACHE = { bytes: 2e9, keepsMs: 600_000 };

/** A data folder, or `postgres://…`; and `https://HOST/BUCKET[/PREFIX]` for blobs. */
export interface DataMove {
  readonly from: string;
  readonly to: string;
  /** Copied before the database; null: they stay where they are. */
  readonly blobs: { readonly from: string; readonly to: string; readonly region: string } | null;
}

/**
 * Copies blobs, and then a database into an empty one. The source is unchanged. No service may use the source
 * or the target.
 * @param onTable called for each written table, before all of them are committed
 * @throws {StoreError} as `copyDatabase` and `copyBlobs`
 * @throws {ServerError} `server.data_directory_unusable`
 */
export async function moveData(
  { from, to, blobs }: DataMove,
  { signal, onTable }: { readonly signal?: AbortSignal; readonly onTable?: (table: TableDigest) => void } = {},
): Promise<{ tables: TableDigest[]; files: BlobDigest[] }> {
  const cleanups: (() => unknown)[] = [];
  try {
    const source = databaseOf(from, cleanups, { what: 'database to copy from', mustExist: true });
    const target = databaseOf(to, cleanups, { what: 'database to copy to', mustExist: false });
    const files = blobs === null ? [] : await moveBlobs(blobs, cleanups, signal);
    const tables = await copyDatabase(source, target, {
      isAlone: true,
      ...(signal && { signal }),
      ...(onTable && { onTable }),
    });
    return { tables, files };
  } finally {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  }
}

/**
 * Writes a backup of a service's data into a new folder, even while the service runs.
 * @throws {StoreError} as `makeBackup`
 */
export async function backUpData(
  config: Pick<ServiceConfig, 'dataDirectory' | 'database' | 'bucket'>,
  folder: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<BackupManifest> {
  const { database } = config;
  if (database.kind === 'sqlite' && !existsSync(database.path)) throw noDatabase(database.path);
  const cleanups: (() => unknown)[] = [];
  try {
    const blobs = await opened(blobsOf(config), cleanups);
    return await makeBackup({ database, blobs }, resolve(folder), options);
  } finally {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  }
}

/**
 * Restores a backup into the configured data folder, database and bucket. The database must be empty.
 * @throws {StoreError} as `restoreBackup`
 * @throws {ServerError} `server.data_directory_unusable`
 */
export async function restoreData(
  config: Pick<ServiceConfig, 'dataDirectory' | 'database' | 'bucket'>,
  folder: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<BackupManifest> {
  const { database } = config;
  refuseTakenDataDirectory(config.dataDirectory);
  const isTaken = database.kind === 'sqlite' && existsSync(database.path);
  // A lost database may have left an empty file.
  const isEmpty = isTaken && statSync(database.path).size === 0;
  if (isTaken && !isEmpty)
    throw new ServerError(
      'server.data_directory_unusable',
      `${database.path} already exists. Move it away first, or use a new data folder.`,
    );
  // Checked before creating a data folder for an invalid backup.
  const manifest = await checkBackup(resolve(folder), options);
  const cleanups: (() => unknown)[] = [claimDataDirectory(config.dataDirectory)];
  try {
    if (isEmpty) setDatabaseAside(database.path, 'empty');
    const location = blobsOf(config);
    const blobs = await opened(location, cleanups);
    const readBack = location.kind === 's3' ? await opened(await inScratch(location, cleanups), cleanups) : blobs;
    return await restoreBackup(resolve(folder), { database, blobs, readBack }, { ...options, manifest });
  } finally {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  }
}

function blobsOf({ dataDirectory, bucket }: Pick<ServiceConfig, 'dataDirectory' | 'bucket'>): BlobLocation {
  return bucket ?? { kind: 'folder', root: dataPaths(dataDirectory).blobs };
}

function databaseOf(
  place: string,
  cleanups: (() => unknown)[],
  { what, mustExist }: { what: string; mustExist: boolean },
): StoreLocation {
  if (/^postgres(?:ql)?:\/\//.test(place)) {
    const problem = addressProblem(place);
    if (problem === null) return { kind: 'postgres', url: place };
    throw new ServerError('server.config_invalid', `the address of the ${what} ${problem}`);
  }
  const { database } = dataPaths(folderOf(place, 'postgres://USER@HOST:PORT/DATABASE'));
  if (mustExist && !existsSync(database)) throw noDatabase(database);
  cleanups.push(claimDataDirectory(resolve(place)));
  return { kind: 'sqlite', path: database };
}

/**
 * Refuses addresses of unknown kinds: as paths they would become folders, and a copy into them would seem to
 * succeed.
 */
function folderOf(place: string, knownForm: string): string {
  if (!/^[a-z][a-z\d+.-]+:\//i.test(place)) return resolve(place);
  // The address may contain a password.
  const scheme = place.slice(0, place.indexOf(':'));
  throw new ServerError(
    'server.config_invalid',
    `an address with ${scheme}: is not supported: use a data folder or ${knownForm}`,
  );
}

function noDatabase(path: string): ServerError {
  return new ServerError('server.data_directory_unusable', `no database ${path}`);
}

async function moveBlobs(
  { from, to, region }: NonNullable<DataMove['blobs']>,
  cleanups: (() => unknown)[],
  signal: AbortSignal | undefined,
): Promise<BlobDigest[]> {
  const open = async (place: string) => {
    const location: BlobLocation = /^https?:\/\//.test(place)
      ? await inScratch({ kind: 's3', url: place, region }, cleanups)
      : { kind: 'folder', root: dataPaths(folderOf(place, 'https://HOST/BUCKET[/PREFIX]')).blobs };
    return await opened(location, cleanups);
  };
  const [source, target] = [await open(from), await open(to)];
  // Reads a bucket back through a fresh cache, without the data just written.
  const readBack = target.location.kind === 's3' ? await open(to) : target;
  const { files } = await copyBlobs(source, target, { readBack, ...(signal && { signal }) });
  return files;
}

async function opened(location: BlobLocation, cleanups: (() => unknown)[]): Promise<Blobs> {
  const blobs = await openBlobs(location, process.env, { cacheKeepsMs: BUCKET_CACHE.keepsMs });
  cleanups.push(() => blobs.close());
  return blobs;
}

/** The same bucket, with a cache that lasts as long as the command. */
async function inScratch(
  { url, region }: Pick<Extract<BlobLocation, { kind: 's3' }>, 'kind' | 'url' | 'region'>,
  cleanups: (() => unknown)[],
): Promise<BlobLocation> {
  const cacheDirectory = await mkdtemp(join(tmpdir(), 'trainyard-copy-'));
  cleanups.push(() => rm(cacheDirectory, { recursive: true, force: true }));
  return { kind: 's3', url, region, cacheDirectory, cacheBytes: BUCKET_CACHE.bytes };
}
