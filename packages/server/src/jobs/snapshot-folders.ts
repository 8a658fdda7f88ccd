import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Store } from '@trainyard/store';

/** Removes the snapshots of a job that will never go on. */
export async function removeIfEnded(store: Store, workDirectory: string, jobId: string): Promise<void> {
  const job = await store.getJob(jobId);
  if (job !== null && job.finishedAt === null) return;
  await rm(join(workDirectory, jobId), { recursive: true, force: true });
}

/** Removes what a crash left behind: snapshots of a job that was cancelled while it was paused, say. */
export async function removeEnded(store: Store, workDirectory: string): Promise<void> {
  const names = await readdir(workDirectory).catch(() => []); // made with the first snapshot
  for (const name of names) await removeIfEnded(store, workDirectory, name);
}
