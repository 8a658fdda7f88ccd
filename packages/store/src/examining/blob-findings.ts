import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';

import { bucketKey } from '../blobs/open-blobs.ts';
import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { S3Bucket } from '../blobs/s3/s3-bucket.ts';
import type { BlobLocation } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import type { Finding } from './finding.ts';

/** Prefix of objects that an interrupted check leaves; nothing reads them. */
const PROBES = 'probes';

/**
 * Writes a small object, reads it, tries to overwrite it, and removes it.
 * @param environment source of a bucket's credentials
 */
export async function* blobFindings(
  location: BlobLocation,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): AsyncGenerator<Finding> {
  if (location.kind === 'folder') {
    // Before the first start there is no folder, and the check creates none.
    if (existsSync(location.root)) yield await found(`blobs in ${location.root}`, () => tryFolder(location.root));
    return;
  }
  const { host, pathname } = new URL(location.url);
  yield await found(`bucket ${host}${pathname}`, async () => {
    const { url, region } = location;
    return await tryBucket(new S3Bucket({ url, region, credentials: bucketKey(environment) }));
  });
}

async function found(subject: string, attempt: () => Promise<string | null>): Promise<Finding> {
  try {
    return { name: 'blobs', subject, problem: await attempt() };
  } catch (error) {
    return { name: 'blobs', subject, problem: error instanceof StoreError ? error.message : String(error) };
  }
}

async function tryFolder(root: string): Promise<string | null> {
  const blobs = await FolderBlobs.open(root);
  const [key, bytes] = [`${PROBES}/${randomUUID()}`, Buffer.from(randomUUID())];
  try {
    await blobs.put(key, bytes);
    const isSame = Buffer.from(await blobs.get(key)).equals(bytes);
    await blobs.remove(key);
    return isSame ? null : 'a read returned other data than was written. Check the disk';
  } finally {
    await blobs.close();
  }
}

async function tryBucket(bucket: S3Bucket): Promise<string | null> {
  const [name, bytes] = [`${PROBES}/${randomUUID()}`, Buffer.from(randomUUID())];
  await bucket.check();
  if (!(await bucket.put(name, bytes, { isNew: true })))
    return 'a new object already exists. Check the settings of the bucket';
  try {
    if ((await bucket.get(name))?.equals(bytes) !== true) return 'a read returned other data than was written';
    const isReplaced = await bucket.put(name, Buffer.from('another'), { isNew: true });
    if (isReplaced)
      return 'the bucket ignores If-None-Match: *, so two processes could commit the same checkpoint. Use a server that supports it';
  } finally {
    await bucket.delete(name);
  }
  return (await bucket.head(name)) === null
    ? null
    : 'a removed object still exists. Check that the credentials may delete';
}
