import type { ClaimedJob, PullJob, Store } from '@trainyard/store';

import { clientFailure, JobFault } from '../../seams/faults/http-faults.ts';
import type { Log } from '../../seams/logging/log.ts';
import { aboutJob } from '../about-job.ts';
import type { JobLease } from '../job-lease.ts';
import type { JobWork } from '../job-machine.ts';
import { MAX_SERVICE_LOSSES } from '../retry-lost-host.ts';

type HeldPull = ClaimedJob<PullJob>;

/** Interval of the events that show other processes the progress. */
const EVENT_MS = 10_000;

/** Bytes that are here, and of the whole model; null: not known yet. */
export interface FetchedBytes {
  readonly doneBytes: number;
  readonly totalBytes: number | null;
}

export interface PullJobsOptions {
  readonly store: Store;
  /** Fetches a base model and serves it. A repeated call continues an interrupted one. */
  readonly fetch: (
    baseModel: string,
    options: { readonly signal: AbortSignal; readonly onProgress: (bytes: FetchedBytes) => void },
  ) => Promise<void>;
  readonly log: Log;
}

/** Pulls: each brings a base model from a hub and serves it in this process. */
export class PullJobs implements JobWork<'pull'> {
  readonly kinds = ['pull'] as const;
  readonly noun = 'pull';
  readonly pollMs = 1_000;
  readonly maxAttempts = MAX_SERVICE_LOSSES;
  readonly #options: PullJobsOptions;

  constructor(options: PullJobsOptions) {
    this.#options = options;
  }

  lostTooOften({ numAttempts }: HeldPull): Error {
    return new JobFault('trainer.host_lost', `the service stopped ${numAttempts - 1} times during this download`);
  }

  async run(job: HeldPull, lease: JobLease): Promise<void> {
    const { store, fetch } = this.#options;
    let bytes: FetchedBytes | null = null;
    let reported: FetchedBytes | null = null;
    const report = setInterval(() => {
      if (bytes === null || bytes === reported) return;
      reported = bytes;
      const data = { done_bytes: bytes.doneBytes, total_bytes: bytes.totalBytes };
      const event = { type: 'pull_progress', data };
      // The next event repeats the progress; a lost lease ends the work itself.
      void store.jobs.appendEvent(job.id, job.fencingToken, event).catch(() => undefined);
    }, EVENT_MS);
    try {
      await fetch(job.baseModel, { signal: lease.signal, onProgress: (seen) => (bytes = seen) });
    } finally {
      clearInterval(report);
    }
    await lease.insist(() => store.pulls.finish(job.id, job.fencingToken));
  }

  async fail(job: HeldPull, error: unknown): Promise<void> {
    const { store, log } = this.#options;
    const { code, message } = clientFailure(error);
    const reason = error instanceof Error ? error.message : String(error);
    log(`the pull of ${job.baseModel} failed (${code}): ${reason}`, { ...aboutJob(job), level: 'error' });
    await store.jobs.fail(job.id, job.fencingToken, message, { code, message });
  }

  async leave({ id }: HeldPull): Promise<boolean> {
    const now = await this.#options.store.jobs.get(id);
    return now !== null && now.finishedAt === null;
  }

  async clear(): Promise<void> {}
}
