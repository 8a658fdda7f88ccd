import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Store } from '@trainyard/store';

/** Removes the snapshots of a job that will never continue. */
export async function removeIfEnded(store: Store, workDirectory: string, jobId: string): Promise<void> {
  const job = await store.jobs.get(jobId);
  if (job !== null && job.finishedAt === null) return;
  await rm(join(workDirectory, jobId), { recursive: true, force: true });
}

/** Removes leftovers of crashes, such as snapshots of a job that was cancelled while paused. */
export async function removeEnded(store: Store, workDirectory: string): Promise<void> {
  const names = await readdir(workDirectory).catch(() => []); // created with the first snapshot
  for (const name of names) await removeIfEnded(store, workDirectory, name);
}
