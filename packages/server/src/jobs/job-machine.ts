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

/** A worker that misses two heartbeats is taken for dead. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 10_000;

/** A job of one of these kinds, in hand. */
export type HeldJob<Kind extends JobKind> = ClaimedJob<JobOfKind<Kind>>;

/**
 * The work on jobs of some kinds. All kinds are in one queue, which has their leases; whoever has lost his can write nothing more: every write of a kind
 * names the fencing token of its claim, and the store refuses a stale one with `store.lease_lost`.
 */
export interface JobWork<Kind extends JobKind> {
  readonly kinds: readonly Kind[];
  /** The log's noun for such a job. */
  readonly noun: string;
  /** Another process may have queued one: looked for this often when nobody notifies. */
  readonly pollMs: number;
  /** One that was in flight at so many ends of the whole service is taken to be the reason. */
  readonly maxAttempts: number;
  /** Sees it through to its end in the store. It stops soon after the lease's signal aborts. */
  run(job: HeldJob<Kind>, lease: JobLease, trace: JobTrace | null): Promise<void>;
  /** The error of a job that went down with the service too often. */
  lostTooOften(job: HeldJob<Kind>): Error;
  /** Ends it in the store as failed. Done again when the store is busy or full. */
  fail(job: HeldJob<Kind>, error: unknown): Promise<void>;
  /** It was taken from this worker, or given back. @returns whether somebody goes on with it, now or later */
  leave(job: HeldJob<Kind>): Promise<boolean>;
  /** It has ended, and nobody goes on with it. */
  clear(job: HeldJob<Kind>): Promise<void>;
}

export interface JobMachineOptions<Kind extends JobKind> {
  readonly store: Pick<Store, 'instanceId' | 'claimNextJob' | 'getJob' | 'renewLease' | 'releaseLease'>;
  readonly work: JobWork<Kind>;
  /** ids of the base models whose files are here; jobs that need another stay in the queue. Default: all are */
  readonly baseModels?: readonly string[];
  readonly log: Log;
  /** Makes a trace of each job. Default null: nobody asked for traces. */
  readonly tracing?: Tracing | null;
  /** Count what becomes of jobs. Default: nothing is counted. */
  readonly metrics?: JobMetrics;
  /** how long a claim holds without a renewal, default 30 s */
  readonly leaseMs?: number;
  /** time between two renewals, default 10 s */
  readonly heartbeatMs?: number;
}

/**
 * Takes jobs of some kinds one after the other and sees each through to its one end, or back to the queue: at shutdown, when somebody paused it, and when the
 * store takes nothing until the lease ends. A store that is busy or full fails no job.
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
        const job = await store.claimNextJob(store.instanceId, leaseMs, work.kinds, baseModels);
        if (job !== null) await this.#see(job);
        return job !== null;
      },
      log,
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** Stops after putting the job in flight back into the queue. */
  async stop(): Promise<void> {
    const stopped = this.#loop.stop();
    this.#current?.lease.abort(new DOMException('the service is shutting down', 'AbortError'));
    await stopped;
  }

  /** Looks for work now rather than at the next poll, and whether the job in hand is held still. */
  notify(): void {
    this.#loop.notify();
    this.#current?.lease.lookNow();
  }

  get isStopping(): boolean {
    return this.#loop.isStopping;
  }

  /** The reason why the job in hand waits, in words for clients; null when it gets on. */
  get trouble(): string | null {
    return this.#current?.lease.trouble ?? null;
  }

  /** Lets go of the job in hand if it is meant. @returns false when it is not; else true, when nothing of it runs any more */
  async letGo(isMeant: (job: HeldJob<Kind>) => boolean, why: string): Promise<boolean> {
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
      renew: (ms) => store.renewLease(job.id, job.fencingToken, ms),
      isHeld: async () => (await store.getJob(job.id))?.lease?.fencingToken === job.fencingToken,
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
      if (await this.#goesOnLater(job, error, { lease, trace })) return;
    } finally {
      lease.stop();
      this.#current = null;
      ended.resolve();
    }
    await work.clear(job);
  }

  /** Settles a job that did not end well. @returns whether somebody goes on with it */
  async #goesOnLater(
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
    // Whoever cancelled, paused or claimed it has taken the claim away; otherwise it is still ours to give back.
    await this.#eventually(() => this.#release(job));
    const isLive = this.isStopping || ((await this.#eventually(() => work.leave(job))) ?? true);
    trace?.end(isLive ? null : 'stopped');
    if (isLive && isLostLease(lease.signal.reason ?? error) && !(await this.#isPaused(job)))
      this.#options.metrics?.leaseLost(job.kind);
    return isLive;
  }

  /** Whoever pauses a job takes its lease, which is no loss. */
  async #isPaused({ id }: HeldJob<Kind>): Promise<boolean> {
    const now = await this.#options.store.getJob(id).catch(() => null);
    return now !== null && now.pausedAt !== null;
  }

  /** Without effect when the claim does not hold any more. */
  async #release({ id, fencingToken }: HeldJob<Kind>): Promise<void> {
    try {
      await this.#options.store.releaseLease(id, fencingToken);
    } catch (error) {
      if (!isLostLease(error)) throw error;
    }
  }

  /** Does `work` as often as a busy or full store makes it necessary; undefined when the worker is stopped before it could be done. */
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
