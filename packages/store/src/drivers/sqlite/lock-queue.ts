import { StoreError } from '../../contract/errors.ts';

/**
 * Pause before the next attempt at the lock: short at first, because most other writers finish in
 * milliseconds.
 */
const FIRST_PAUSE_MS = 2;
const MAX_PAUSE_MS = 25;

/**
 * Runs work on one connection in order of arrival. Work that finds the database locked by another process is
 * retried until the lock is free or its time is over. SQLite's own waiting would block this thread.
 */
export class LockQueue {
  readonly #waitMs: number;
  readonly #waiting: Waiter[] = [];
  #pauseMs = FIRST_PAUSE_MS;
  /** Settles with the work in progress; null without any. */
  #inProgress: Promise<void> | null = null;
  #isScheduled = false;
  /**
   * Time on the clock of `performance.now()` at which the lock was first found taken since it was last free;
   * null if it was free.
   */
  #busySince: number | null = null;

  /** @param waitMs maximum wait of each piece of work for the lock; 0 = fails at once */
  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  /** Time for which every attempt has found the lock taken, milliseconds; 0 if no work waits for it. */
  get waitedMs(): number {
    return this.#busySince === null || this.#waiting.length === 0 ? 0 : performance.now() - this.#busySince;
  }

  /**
   * Runs `attempt` alone. It starts before this method returns if no other work is in progress or waiting,
   * else after that.
   *
   * @param attempt throws `store.busy` at once and without effect if the lock is taken
   * @throws errors of `attempt`; `store.busy` after the maximum wait
   */
  run<Result>(attempt: () => Promise<Result>): Promise<Result> {
    if (this.#inProgress === null && this.#waiting.length === 0) {
      try {
        return this.#follow(attempt());
      } catch (error) {
        if (!isBusy(error) || this.#waitMs <= 0) return Promise.reject(error as Error);
        this.#busySince ??= performance.now();
      }
    }
    return new Promise<Result>((resolve, reject) => {
      const begin = () => void this.#follow(attempt()).then(resolve, reject);
      this.#waiting.push({ begin, reject, deadline: performance.now() + this.#waitMs });
      if (this.#inProgress === null) this.#tryLater();
    });
  }

  /**
   * Runs `read`, which needs no write lock, after the work in progress and before waiting work. It waits
   * itself if it finds a lock.
   */
  runNext<Result>(read: () => Result): Promise<Result> {
    if (this.#inProgress !== null) return this.settle().then(() => this.runNext(read));
    try {
      return Promise.resolve(read());
    } catch (error) {
      if (!isBusy(error) || this.#waitMs <= 0) return Promise.reject(error as Error);
      return this.run(() => Promise.resolve(read()));
    }
  }

  /** Resolves once no work is in progress. */
  async settle(): Promise<void> {
    while (this.#inProgress !== null) await this.#inProgress;
  }

  #follow<Result>(piece: Promise<Result>): Promise<Result> {
    this.#busySince = null;
    this.#pauseMs = FIRST_PAUSE_MS;
    const ended = () => {
      this.#inProgress = null;
      // One commit per turn of the event loop, because each waits for the disk.
      if (this.#waiting.length > 0) this.#tryLater(0);
    };
    this.#inProgress = piece.then(ended, ended);
    return piece;
  }

  #tryLater(pauseMs: number = this.#pauseMs): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const attempt = () => {
      this.#isScheduled = false;
      this.#tryFirst();
    };
    if (pauseMs === 0) setImmediate(attempt);
    else setTimeout(attempt, pauseMs);
  }

  #tryFirst(): void {
    const first = this.#waiting[0];
    if (first === undefined || this.#inProgress !== null) return;
    try {
      first.begin();
      this.#waiting.shift();
    } catch (error) {
      if (isBusy(error)) {
        this.#busySince ??= performance.now();
        this.#expireLate(error);
        this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
        this.#tryLater();
        return;
      }
      this.#waiting.shift();
      first.reject(error);
      this.#tryLater(0);
    }
  }

  /** Deadlines are in order, because all wait equally long. */
  #expireLate(error: unknown): void {
    const now = performance.now();
    while (this.#waiting[0] !== undefined && this.#waiting[0].deadline <= now) this.#waiting.shift()?.reject(error);
  }
}

interface Waiter {
  /** Starts the work, which then settles the promise; throws at once if it cannot start. */
  readonly begin: () => void;
  readonly reject: (error: unknown) => void;
  /** Time on the clock of `performance.now()`. */
  readonly deadline: number;
}

function isBusy(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.busy';
}
