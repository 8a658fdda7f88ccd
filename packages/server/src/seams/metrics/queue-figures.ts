import type { Store } from '@trainyard/store';

/** Counting stops here. */
const MAX_COUNTED_JOBS = 1000;

/** Jobs waiting for a trainer and jobs in training, from the database: equal in all processes. */
export interface QueueFigures {
  readonly queued: number;
  readonly running: number;
  /** Waiting time of the oldest queued job, seconds; 0 if none waits. Paused jobs do not count. */
  readonly oldestSeconds: number;
}

/** @throws {StoreError} */
export async function queueFigures(store: Pick<Store, 'jobs' | 'clock'>): Promise<QueueFigures> {
  const [queued, running] = [await listed(store, 'queued'), await listed(store, 'running')];
  const waitingSince = queued.filter(({ pausedAt }) => pausedAt === null).map(({ createdAt }) => createdAt);
  const oldestSeconds = Math.max(0, ...waitingSince.map((since) => (store.clock.now() - since) / 1000));
  return { queued: queued.length, running: running.length, oldestSeconds };
}

async function listed(store: Pick<Store, 'jobs'>, status: 'queued' | 'running') {
  const jobs = [];
  let after: string | undefined;
  do {
    const page = await store.jobs.list({ status, limit: 100, ...(after === undefined ? {} : { after }) });
    jobs.push(...page.items);
    after = page.hasMore ? page.items.at(-1)?.id : undefined;
  } while (after !== undefined && jobs.length < MAX_COUNTED_JOBS);
  return jobs;
}
