import { randomUUID } from 'node:crypto';

import type { Blobs, Store } from '@trainyard/store';

import { isPassingButFull } from '../seams/faults/passing-fault.ts';
import type { JobLease } from './job-lease.ts';

interface Parts {
  readonly store: Pick<Store, 'files'>;
  readonly blobs: Pick<Blobs, 'commitDirectory'>;
  readonly lease: JobLease;
}

/**
 * Commits a staged directory, with retries while blobs are unavailable. Each try uses a new key, because a
 * try whose answer was lost may have taken the last one. Leftovers of such tries are removed at the next
 * start.
 * @param prefix such as `exports/`
 * @returns its key, which no row names yet
 */
export async function keepDirectory({ store, blobs, lease }: Parts, staged: string, prefix: string): Promise<string> {
  return await lease.insist(async () => {
    const key = `${prefix}${randomUUID()}`;
    await store.files.announce(key);
    await blobs.commitDirectory(staged, key);
    return key;
  }, isPassingButFull);
}
