import { type ClaimedJob, type JobKind, type JobOfKind, type Store, StoreError } from '@trainyard/store';

import { JobLease } from './job-lease.ts';
import { isPassing } from '../seams/faults/passing-fault.ts';
import { clientFailure } from '../seams/faults/http-faults.ts';
import { type Log, logOf } from '../seams/logging/log.ts';
import { JobTrace } from '../seams/tracing/job-trace.ts';
import type { JobMetrics } from '../seams/metrics/job-metrics.ts';
import type { Tracing } from '../seams/tracing/tracing.ts';
import { aboutJob } from './about-job.ts';
import { WorkLoop } from './work-loop.ts';

/** A worker that misses two heartbeats counts as dead. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 10_000;

export type HeldJob<Kind extends JobKind> = ClaimedJob<JobOfKind<Kind>>;

/**
 * Work on jobs of given kinds. One queue holds all kinds and their leases. A worker that lost its lease
 * cannot write: every write includes the fencing token of its claim.
 */
export interface JobWork<Kind extends JobKind> {
  readonly kinds: readonly Kind[];
  /** Noun for such a job in the log. */
  readonly noun: string;
  /** Poll interval without notifications: another process may have queued a job. */
  readonly pollMs: number;
  /** A job in flight at this many ends of the whole service counts as their cause. */
  readonly maxAttempts: number;
  /** Runs the job to its end in the store. Stops soon after the lease's signal aborts. */
  run(job: HeldJob<Kind>, lease: JobLease, trace: JobTrace | null): Promise<void>;
  /** Error of a job that was in flight at too many ends of the service. */
  lostTooOften(job: HeldJob<Kind>): Error;
  /** Marks the job as failed in the store. Repeated while the store is busy or full. */
  fail(job: HeldJob<Kind>, error: unknown): Promise<void>;
  /**
   * Called when the job was taken from this worker, or given back.
   * @returns true if it will continue, now or later
   */
  leave(job: HeldJob<Kind>): Promise<boolean>;
  clear(job: HeldJob<Kind>): Promise<void>;
}

export interface JobMachineOptions<Kind extends JobKind> {
  readonly store: Pick<Store, 'instanceId' | 'jobs'>;
  readonly work: JobWork<Kind>;
  /** ids of the base models whose files are here; jobs of others stay in the queue. Default: all are */
  readonly baseModels?: readonly string[];
  readonly log: Log;
  /** Traces each job. Default null: no tracing. */
  readonly tracing?: Tracing | null;
  /** Counts outcomes of jobs. Default: none. */
  readonly metrics?: JobMetrics;
  /** duration of a claim without renewal, default 30 s */
  readonly leaseMs?: number;
  /** time between two renewals, default 10 s */
  readonly heartbeatMs?: number;
}

/**
 * Runs jobs of some kinds one after the other, each to its end or back to the queue. A busy or full store
 * does not fail a job.
 */
export class JobMachine<Kind extends JobKind> {
  readonly #options: JobMachineOptions<Kind>;
  readonly #loop: WorkLoop;
  #current: { job: HeldJob<Kind>; lease: JobLease; ended: Promise<void> } | null = null;

  constructor(options: JobMachineOptions<Kind>) {
    this.#options = options;
    const { store, work, baseModels, leaseMs = LEASE_MS, log } = options;
    this.#loop = new WorkLoop({
      name: `${work.noun} worker`,
      pollMs: work.pollMs,
      workOnce: async () => {
        const job = await store.jobs.claim(store.instanceId, leaseMs, work.kinds, baseModels);
        if (job !== null) await this.#see(job);
        return job !== null;
      },
      log,
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** Stops after returning the job in flight to the queue. */
  async stop(): Promise<void> {
    const stopped = this.#loop.stop();
    this.#current?.lease.abort(new DOMException('the service is shutting down', 'AbortError'));
    await stopped;
  }

  /** Checks now, rather than at the next poll, for work and for the hold of the current job. */
  notify(): void {
    this.#loop.notify();
    this.#current?.lease.lookNow();
  }

  get isStopping(): boolean {
    return this.#loop.isStopping;
  }

  /** Reason why the current job waits, for clients; null while it progresses. */
  get problem(): string | null {
    return this.#current?.lease.problem ?? null;
  }

  /**
   * Leaves the current job if `isMeant` accepts it.
   * @returns false for another job; true once no part of it runs any more
   */
  async releaseJob(isMeant: (job: HeldJob<Kind>) => boolean, why: string): Promise<boolean> {
    const current = this.#current;
    if (current === null || !isMeant(current.job)) return false;
    current.lease.abort(new StoreError('store.lease_lost', why));
    await current.ended;
    return true;
  }

  async #see(job: HeldJob<Kind>): Promise<void> {
    const { store, work, tracing = null, leaseMs = LEASE_MS, heartbeatMs = HEARTBEAT_MS } = this.#options;
    const log = logOf(this.#options.log, aboutJob(job, tracing));
    const { metrics } = this.#options;
    metrics?.claimed(job.kind);
    const trace = tracing === null ? null : new JobTrace(tracing, job, job.fencingToken);
    const lease = new JobLease({
      name: `${work.noun} ${job.id}`,
      renew: (ms) => store.jobs.renew(job.id, job.fencingToken, ms),
      isHeld: async () => (await store.jobs.get(job.id))?.lease?.fencingToken === job.fencingToken,
      leaseMs,
      heartbeatMs,
      onRetry: () => metrics?.retried(),
      log,
    });
    const ended = Promise.withResolvers<void>();
    this.#current = { job, lease, ended: ended.promise };
    try {
      if (job.numAttempts > work.maxAttempts) throw work.lostTooOften(job);
      await work.run(job, lease, trace);
      trace?.end('succeeded');
    } catch (error) {
      if (await this.#retriesLater(job, error, { lease, trace })) return;
    } finally {
      lease.stop();
      this.#current = null;
      ended.resolve();
    }
    await work.clear(job);
  }

  /** Settles a job that did not end well. @returns true if it will continue */
  async #retriesLater(
    job: HeldJob<Kind>,
    error: unknown,
    { lease, trace }: { readonly lease: JobLease; readonly trace: JobTrace | null },
  ): Promise<boolean> {
    const { work } = this.#options;
    if (!lease.signal.aborted && !isLostLease(error)) {
      try {
        await lease.insist(() => work.fail(job, error));
        trace?.end('failed', clientFailure(error).code);
        return false;
      } catch (failure) {
        if (!lease.signal.aborted && !isLostLease(failure)) throw failure;
      }
    }
    lease.stop();
    // A cancel, pause or other claim has already taken the claim away; otherwise it is still ours to give
    // back.
    await this.#eventually(() => this.#release(job));
    const isLive = this.isStopping || ((await this.#eventually(() => work.leave(job))) ?? true);
    trace?.end(isLive ? null : 'stopped');
    if (isLive && isLostLease(lease.signal.reason ?? error) && !(await this.#isPaused(job)))
      this.#options.metrics?.leaseLost(job.kind);
    return isLive;
  }

  /** A pause takes the lease, which does not count as a loss. */
  async #isPaused({ id }: HeldJob<Kind>): Promise<boolean> {
    const now = await this.#options.store.jobs.get(id).catch(() => null);
    return now !== null && now.pausedAt !== null;
  }

  /** Has no effect if the claim is lost. */
  async #release({ id, fencingToken }: HeldJob<Kind>): Promise<void> {
    try {
      await this.#options.store.jobs.release(id, fencingToken);
    } catch (error) {
      if (!isLostLease(error)) throw error;
    }
  }

  /** Retries `work` while the store is busy or full; undefined if the worker is stopped before it succeeds. */
  async #eventually<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isPassing(error)) throw error;
        if (this.isStopping) return undefined;
        await this.#loop.pauseAfterFailure();
      }
    }
  }
}

function isLostLease(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.lease_lost';
}
