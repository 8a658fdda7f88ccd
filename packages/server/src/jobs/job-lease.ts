import { StoreError } from '@trainyard/store';
import { clientFailure } from '../seams/faults/http-faults.ts';
import type { Log } from '../seams/logging/log.ts';
import { isPassing } from '../seams/faults/passing-fault.ts';

/** Time until a worker leaves a job that was cancelled, paused or taken over by another process. */
const LOOK_MS = 500;
/** Pause between two tries of a write that a busy or full store refused. */
const RETRY_MS = 1_000;

export interface JobLeaseOptions {
  readonly name: string;
  /** Extends the hold to `leaseMs` from now. @throws {StoreError} `store.lease_lost` if the hold is lost */
  readonly renew: (leaseMs: number) => Promise<void>;
  /** Resolves to true while the hold lasts. */
  readonly isHeld: () => Promise<boolean>;
  /** duration of one renewal */
  readonly leaseMs: number;
  /** time between two renewals */
  readonly heartbeatMs: number;
  /** time between two checks of the hold, default 500 ms */
  readonly lookMs?: number;
  /** Called at each retry of a write. Default: none. */
  readonly onRetry?: () => void;
  readonly log: Log;
  /** monotonic milliseconds, default `performance.now` */
  readonly now?: () => number;
}

/**
 * A worker's hold on its job. Renewed while the store answers, and ended when the store reports its loss.
 * While the store does not answer (locked by another process, disk full), the hold lasts until the last
 * renewal expires, and the worker's writes are retried until then.
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

  /** Create it right after the claim, which is the first renewal. */
  constructor(options: JobLeaseOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#endsAt = this.#now() + options.leaseMs;
    this.#renewIn(options.heartbeatMs);
    this.#lookLater();
  }

  /**
   * Aborts when the worker must leave the job, with the reason: `store.lease_lost` if the job is another
   * worker's or over.
   */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Reason why the job waits, for clients; null while it progresses. */
  get problem(): string | null {
    const fault = this.#waitsFor ?? this.#renewalFault;
    return fault === null ? null : `a job waits: ${clientFailure(fault).message}`;
  }

  /** Marks the job as waiting. Reported and logged once. */
  waitFor(error: Error): void {
    if (this.#waitsFor === null) this.#options.log(`${this.#options.name} waits: ${error.message}`, { level: 'warn' });
    this.#waitsFor = error;
  }

  clearWait(): void {
    this.#waitsFor = null;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Checks the hold now rather than at the next time. */
  lookNow(): void {
    if (this.#lookTimer === null) return;
    clearTimeout(this.#lookTimer);
    void this.#look();
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of [this.#timer, this.#lookTimer]) if (timer !== null) clearTimeout(timer);
  }

  /**
   * Runs `work`, and repeats it while the store is busy or full. It must be idempotent.
   * @param isPassingFault errors to retry, default those of a busy, full or unavailable store
   * @throws the signal's reason if it aborts; other errors of `work`
   */
  async insist<Result>(
    work: () => Promise<Result>,
    isPassingFault: (error: unknown) => boolean = isPassing,
  ): Promise<Result> {
    for (;;) {
      this.signal.throwIfAborted();
      try {
        const result = await work();
        this.clearWait();
        return result;
      } catch (error) {
        if (!isPassingFault(error)) throw error;
        this.waitFor(error as Error);
      }
      await this.pause();
      this.#options.onRetry?.();
    }
  }

  /** Waits; shorter if the signal aborts. */
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
      // The renewal has the same problem, and reports it.
    }
    this.#lookLater();
  }

  async #renew(): Promise<void> {
    const { renew, leaseMs, heartbeatMs } = this.#options;
    // The store counts from its write, which is later: the lease never seems longer here than it is.
    const endsAt = this.#now() + leaseMs;
    // The answer may be late, or never come.
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
