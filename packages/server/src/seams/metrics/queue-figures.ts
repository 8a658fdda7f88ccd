import type { Store } from '@trainyard/store';

/** Jobs are counted up to here: more are more than anybody waits for. */
const MAX_COUNTED_JOBS = 1000;

/** Jobs that wait for a trainer, and those that trainers have: of the database, whichever process is asked. */
export interface QueueFigures {
  readonly queued: number;
  readonly running: number;
  /** How long the one that has waited longest has, seconds; 0 when none waits. One that is paused does not wait. */
  readonly oldestSeconds: number;
}

/** @throws {StoreError} */
export async function queueFigures(store: Pick<Store, 'listJobs' | 'now'>): Promise<QueueFigures> {
  const [queued, running] = [await listed(store, 'queued'), await listed(store, 'running')];
  const waitingSince = queued.filter(({ pausedAt }) => pausedAt === null).map(({ createdAt }) => createdAt);
  const oldestSeconds = Math.max(0, ...waitingSince.map((since) => (store.now() - since) / 1000));
  return { queued: queued.length, running: running.length, oldestSeconds };
}

async function listed(store: Pick<Store, 'listJobs'>, status: 'queued' | 'running') {
  const jobs = [];
  let after: string | undefined;
  do {
    const page = await store.listJobs({ status, limit: 100, ...(after === undefined ? {} : { after }) });
    jobs.push(...page.items);
    after = page.hasMore ? page.items.at(-1)?.id : undefined;
  } while (after !== undefined && jobs.length < MAX_COUNTED_JOBS);
  return jobs;
}
