import { StoreError } from '../errors.ts';

/** How long the next look for a free lock is away: short at first, since most other writers are done in milliseconds. */
const FIRST_PAUSE_MS = 2;
const MAX_PAUSE_MS = 25;

/**
 * Work that found the database locked by another process, tried again in order of arrival until the lock is free or the work has waited long
 * enough. SQLite's own waiting would block this thread, and with it everything else the process does.
 */
export class LockQueue {
  readonly #waitMs: number;
  readonly #waiting: Waiter[] = [];
  #pauseMs = FIRST_PAUSE_MS;
  #isTrying = false;
  /** On the clock of `performance.now()`: when the lock was first found taken, since it was last free. */
  #busySince = 0;

  /** @param waitMs how long each piece of work may wait; 0 = it fails at once */
  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  /** For how long every attempt has found the lock taken, milliseconds; 0 when nothing waits. */
  get waitedMs(): number {
    return this.isEmpty ? 0 : performance.now() - this.#busySince;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /**
   * Runs `attempt`, again and again while it finds the lock taken. Each attempt must leave nothing behind when it throws.
   *
   * @param isNext it may go before what waits already: for reads, which need no write lock
   * @throws what the last attempt threw: `store.busy` when the time is over
   */
  run<Result>(attempt: () => Result, isNext = false): Promise<Result> {
    if (this.isEmpty || isNext) {
      try {
        return Promise.resolve(attempt());
      } catch (error) {
        if (!isBusy(error) || this.#waitMs <= 0) return Promise.reject(error as Error);
      }
    }
    return new Promise<Result>((resolve, reject) => {
      const now = performance.now();
      if (this.isEmpty) this.#busySince = now;
      const deadline = now + this.#waitMs;
      const run = (): void => resolve(attempt());
      this.#waiting.push({ run, reject, deadline });
      if (!this.#isTrying) setTimeout(() => this.#tryFirst(), this.#pauseMs);
      this.#isTrying = true;
    });
  }

  #tryFirst(): void {
    const first = this.#waiting[0];
    this.#isTrying = first !== undefined;
    if (first === undefined) return;
    try {
      first.run();
      this.#waiting.shift();
      this.#pauseMs = FIRST_PAUSE_MS;
      this.#busySince = performance.now();
    } catch (error) {
      if (isBusy(error)) {
        this.#giveUpLate(error);
        this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
        setTimeout(() => this.#tryFirst(), this.#pauseMs);
        return;
      }
      this.#waiting.shift();
      first.reject(error);
    }
    // One commit a turn of the event loop: each waits for the disk.
    setImmediate(() => this.#tryFirst());
  }

  /** Deadlines are in order, as all wait equally long. */
  #giveUpLate(error: unknown): void {
    const now = performance.now();
    while (this.#waiting[0] !== undefined && this.#waiting[0].deadline <= now) this.#waiting.shift()?.reject(error);
  }
}

interface Waiter {
  /** Settles the promise when it returns. */
  readonly run: () => void;
  readonly reject: (error: unknown) => void;
  /** On the clock of `performance.now()`. */
  readonly deadline: number;
}

function isBusy(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.busy';
}
