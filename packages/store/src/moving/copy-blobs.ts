import { createReadStream } from 'node:fs';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { filesBelow, hashOf } from '../blobs/file-hash.ts';
import type { Blobs } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';

/** A file of the blobs: its key and kind, or its key and path in the directory. */
export interface BlobDigest {
  /** `files/<key>.<kind>` or `directories/<key>/<path>` */
  readonly name: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

export interface BlobKeys {
  readonly blobKeys: readonly string[];
  readonly directoryKeys: readonly string[];
}

export interface CopyBlobsOptions {
  /** Keys to copy; default: all. */
  readonly keys?: BlobKeys;
  /**
   * The target, opened again to read the copies; for a bucket with a separate, empty cache. Default: the
   * target.
   */
  readonly readBack?: Blobs;
  readonly signal?: AbortSignal;
}

/**
 * Copies blobs and reads each copy back. Existing ones are compared instead, so an interrupted copy can
 * continue.
 *
 * @returns the copied files in order of their names, and the keys missing in the source
 * @throws {StoreError} `store.blob_exists` if the target has something else under a key; `store.blob_corrupt`
 *   if a copy differs
 */
export async function copyBlobs(
  from: Blobs,
  to: Blobs,
  { keys, readBack = to, signal }: CopyBlobsOptions = {},
): Promise<{ files: BlobDigest[]; missing: string[] }> {
  const { blobKeys, directoryKeys } = keys ?? (await allKeys(from));
  const files: BlobDigest[] = [];
  const missing: string[] = [];
  for (const key of blobKeys) {
    signal?.throwIfAborted();
    const copied = await copyFiles(key, { from, to, readBack, signal });
    if (copied.length === 0) missing.push(key);
    files.push(...copied);
  }
  for (const key of directoryKeys) {
    signal?.throwIfAborted();
    const copied = await copyDirectory(key, { from, to, readBack, signal });
    if (copied === null) missing.push(key);
    else files.push(...copied);
  }
  return { files: files.toSorted((one, two) => (one.name < two.name ? -1 : 1)), missing };
}

/** Every file of blobs, in order of their names. */
export async function digestBlobs(blobs: Blobs, { signal }: { signal?: AbortSignal } = {}): Promise<BlobDigest[]> {
  const { blobKeys, directoryKeys } = await allKeys(blobs);
  const files: BlobDigest[] = [];
  for (const key of blobKeys) files.push(...(await filesOf(key, blobs, signal)));
  for (const key of directoryKeys) files.push(...((await directoryOf(key, blobs, signal)) ?? []));
  return files.toSorted((one, two) => (one.name < two.name ? -1 : 1));
}

async function allKeys(blobs: Blobs): Promise<BlobKeys> {
  return { blobKeys: await blobs.listKeys(), directoryKeys: await blobs.listDirectories() };
}

async function filesOf(key: string, blobs: Blobs, signal: AbortSignal | undefined): Promise<BlobDigest[]> {
  signal?.throwIfAborted();
  const files = await blobs.rawFiles(key);
  return await Promise.all(
    files.map(async ({ kind, path }) => ({ name: `files/${key}.${kind}`, ...(await hashOf(path, signal)) })),
  );
}

async function directoryOf(key: string, blobs: Blobs, signal: AbortSignal | undefined): Promise<BlobDigest[] | null> {
  signal?.throwIfAborted();
  const root = await blobs.localDirectory(key);
  if (root === null) return null;
  const paths = (await filesBelow(root)).toSorted();
  return await Promise.all(
    paths.map(async (path) => ({ name: `directories/${key}/${path}`, ...(await hashOf(join(root, path), signal)) })),
  );
}

interface Way {
  readonly from: Blobs;
  readonly to: Blobs;
  readonly readBack: Blobs;
  readonly signal: AbortSignal | undefined;
}

async function copyFiles(key: string, { from, to, readBack, signal }: Way): Promise<BlobDigest[]> {
  const wanted = await filesOf(key, from, signal);
  const there = await filesOf(key, to, signal);
  if (there.length > 0) {
    if (!areEqual(wanted, there)) throw taken(key);
  } else {
    for (const { kind, path } of await from.rawFiles(key)) await to.putRaw(key, kind, createReadStream(path));
  }
  refuseOthers(key, wanted, await filesOf(key, readBack, signal));
  return wanted;
}

/**
 * Copies a directory. Starts again if the source loses its optimizer state meanwhile, which is the only
 * change a directory can have.
 *
 * @returns null if there is none
 */
async function copyDirectory(key: string, way: Way): Promise<BlobDigest[] | null> {
  const before = await listing(key, way.from);
  const isNew = (await way.to.directoryFiles(key)) === null;
  try {
    return await copyWhole(key, way);
  } catch (error) {
    const isSame = JSON.stringify(await listing(key, way.from)) === JSON.stringify(before);
    if (isSame || way.signal?.aborted === true) throw error;
    if (isNew) await way.to.removeDirectory(key);
    return await copyWhole(key, way);
  }
}

async function listing(key: string, blobs: Blobs): Promise<string[] | null> {
  return (await blobs.directoryFiles(key))?.map(({ path }) => path).toSorted() ?? null;
}

async function copyWhole(key: string, { from, to, readBack, signal }: Way): Promise<BlobDigest[] | null> {
  const wanted = await directoryOf(key, from, signal);
  const root = await from.localDirectory(key);
  if (wanted === null || root === null) return null;
  const there = await directoryOf(key, to, signal);
  if (there !== null && !areEqual(wanted, there)) throw taken(key);
  if (there === null) {
    const staged = await to.stageDirectory();
    try {
      await cp(root, staged, { recursive: true });
      await to.commitDirectory(staged, key);
    } catch (error) {
      await rm(staged, { recursive: true, force: true });
      throw error;
    }
  }
  refuseOthers(key, wanted, (await directoryOf(key, readBack, signal)) ?? []);
  return wanted;
}

function areEqual(one: readonly BlobDigest[], two: readonly BlobDigest[]): boolean {
  const text = (files: readonly BlobDigest[]) => files.map(({ name, sha256 }) => `${name} ${sha256}\n`).join('');
  return text(one) === text(two);
}

function refuseOthers(key: string, wanted: readonly BlobDigest[], found: readonly BlobDigest[]): void {
  if (areEqual(wanted, found)) return;
  throw new StoreError('store.blob_corrupt', `the target returned other data for ${key} than was written`);
}

function taken(key: string): StoreError {
  return new StoreError('store.blob_exists', `the target has different data for ${key}`);
}
