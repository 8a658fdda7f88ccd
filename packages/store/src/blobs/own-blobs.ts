import { randomUUID } from 'node:crypto';
import type { Blobs } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import type { Store } from '../contract/store.ts';

/** A small file for each database whose blobs these are. */
export const placeKey = (id: string): string => `places/${id}`;

/**
 * Makes sure that these are the blobs of this database: services that share a database must share its blobs, and a database that was put back belongs to what
 * it names. The first to ask decides it; the file is there before the row, so that a crash in between does no harm.
 * @throws {StoreError} `store.unavailable` when they are not
 */
export async function checkOwnBlobs(store: Pick<Store, 'blobsId' | 'claimBlobs'>, blobs: Blobs): Promise<void> {
  let id = await store.blobsId();
  if (id === null) {
    const own = randomUUID();
    await blobs.putJson(placeKey(own), {});
    id = await store.claimBlobs(own);
    if (id !== own) await blobs.remove(placeKey(own));
  }
  if (await blobs.has(placeKey(id))) return;
  const { location } = blobs;
  throw new StoreError(
    'store.unavailable',
    `the blobs in ${location.kind === 'folder' ? location.root : location.url} are not those of this database (they lack ${placeKey(id)}): name the bucket or the data folder that it was used with; services that share a database share a bucket`,
  );
}
