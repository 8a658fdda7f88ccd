import { StoreError } from '@trainyard/store';
import { clientFailure } from '../seams/faults/http-faults.ts';
import type { Log } from '../seams/logging/log.ts';
import { isPassing } from '../seams/faults/passing-fault.ts';

/** How soon a worker lets go of a job that somebody cancelled or paused, or that another worker has, in whatever process. */
const LOOK_MS = 500;
/** Pause between two tries of what a busy or full store did not take. */
const RETRY_MS = 1_000;

export interface JobLeaseOptions {
  /** Name of the held job, for the log: `job 5f1c…`, say. */
  readonly name: string;
  /** Makes the hold last from now on, for so long. @throws {StoreError} `store.lease_lost` when it does not hold any more */
  readonly renew: (leaseMs: number) => Promise<void>;
  /** Whether it holds still. */
  readonly isHeld: () => Promise<boolean>;
  /** how long one renewal lasts */
  readonly leaseMs: number;
  /** time between two renewals */
  readonly heartbeatMs: number;
  /** time between two looks whether it holds still, default 500 ms */
  readonly lookMs?: number;
  /** Told of each other try of a write. Default: nobody is. */
  readonly onRetry?: () => void;
  readonly log: Log;
  /** monotonic milliseconds, default `performance.now` */
  readonly now?: () => number;
}

/**
 * A worker's hold on its job. It is renewed while the store answers, and ends when the store says so: whoever cancels or pauses a job may be another
 * process. When the store does not (another process has the lock, the disk is
 * full), the hold lasts until the last renewal ends, and what the worker has to write is tried again until then.
 */
export class JobLease {
  readonly #options: JobLeaseOptions;
  readonly #now: () => number;
  readonly #controller = new AbortController();
  #endsAt: number;
  #timer: NodeJS.Timeout | null = null;
  #lookTimer: NodeJS.Timeout | null = null;
  #isStopped = false;
  #waitsFor: Error | null = null;
  #renewalFault: Error | null = null;

  /** To be made right after the claim, which is the first renewal. */
  constructor(options: JobLeaseOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#endsAt = this.#now() + options.leaseMs;
    this.#renewIn(options.heartbeatMs);
    this.#lookLater();
  }

  /** Aborts when the worker must let go of the job; the reason says why, `store.lease_lost` when it is another's or over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The reason why the job waits, in words for clients; null when it gets on. */
  get trouble(): string | null {
    const fault = this.#waitsFor ?? this.#renewalFault;
    return fault === null ? null : `a job waits: ${clientFailure(fault).message}`;
  }

  /** The job cannot get on, which is told and logged once. */
  waitFor(error: Error): void {
    if (this.#waitsFor === null) this.#options.log(`${this.#options.name} waits: ${error.message}`, { level: 'warn' });
    this.#waitsFor = error;
  }

  /** The job gets on. */
  goOn(): void {
    this.#waitsFor = null;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Whether it holds still is looked at now rather than at the next time. */
  lookNow(): void {
    if (this.#lookTimer === null) return;
    clearTimeout(this.#lookTimer);
    void this.#look();
  }

  /** No more renewals. */
  stop(): void {
    this.#isStopped = true;
    for (const timer of [this.#timer, this.#lookTimer]) if (timer !== null) clearTimeout(timer);
  }

  /**
   * Does `work`, again while the store is busy or full. It must be right also when it is done twice.
   * @param isPassingFault what is worth doing it again, default a store that is busy, full or not to be had
   * @throws the signal's reason when that is aborted; whatever else `work` throws
   */
  async insist<Result>(
    work: () => Promise<Result>,
    isPassingFault: (error: unknown) => boolean = isPassing,
  ): Promise<Result> {
    for (;;) {
      this.signal.throwIfAborted();
      try {
        const result = await work();
        this.goOn();
        return result;
      } catch (error) {
        if (!isPassingFault(error)) throw error;
        this.waitFor(error as Error);
      }
      await this.pause();
      this.#options.onRetry?.();
    }
  }

  /** A while; shorter when the signal aborts. */
  async pause(ms: number = RETRY_MS): Promise<void> {
    const { signal } = this;
    if (signal.aborted) return;
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, ms);
    signal.addEventListener('abort', () => over.resolve(), { once: true });
    await over.promise;
    clearTimeout(timer);
  }

  #renewIn(ms: number): void {
    if (this.#isStopped || this.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#renew(), ms);
  }

  #lookLater(): void {
    if (this.#isStopped || this.signal.aborted) return;
    this.#lookTimer = setTimeout(() => void this.#look(), this.#options.lookMs ?? LOOK_MS);
  }

  async #look(): Promise<void> {
    this.#lookTimer = null;
    try {
      if (!(await this.#options.isHeld()) && !this.#isStopped)
        this.abort(new StoreError('store.lease_lost', `${this.#options.name} was stopped, or another worker took it`));
    } catch {
      // The renewal has the same trouble, and tells it.
    }
    this.#lookLater();
  }

  async #renew(): Promise<void> {
    const { renew, leaseMs, heartbeatMs } = this.#options;
    // The store counts from when it writes, which is later: here the lease never seems longer than it is.
    const endsAt = this.#now() + leaseMs;
    // An answer may be late, or never come.
    const end = setTimeout(() => this.#end(), Math.max(0, this.#endsAt - this.#now()));
    try {
      await renew(leaseMs);
      this.#endsAt = endsAt;
      this.#renewalFault = null;
      this.#renewIn(heartbeatMs);
    } catch (error) {
      if (!isPassing(error)) this.abort(error);
      else if (this.#now() < this.#endsAt) {
        this.#renewalFault = error as Error;
        this.#renewIn(Math.min(RETRY_MS, this.#endsAt - this.#now()));
      } else this.#end();
    } finally {
      clearTimeout(end);
    }
  }

  #end(): void {
    this.abort(new StoreError('store.lease_lost', 'the lease expired while the store was not writable'));
  }
}
