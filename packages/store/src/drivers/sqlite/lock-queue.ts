import { StoreError } from '../../contract/errors.ts';

/** How long the next look for a free lock is away: short at first, since most other writers are done in milliseconds. */
const FIRST_PAUSE_MS = 2;
const MAX_PAUSE_MS = 25;

/**
 * Work on one connection, one piece after the other in order of arrival. A piece that finds the database locked by another process is tried
 * again until the lock is free or it has waited long enough. SQLite's own waiting would block this thread, and with it everything else the
 * process does.
 */
export class LockQueue {
  readonly #waitMs: number;
  readonly #waiting: Waiter[] = [];
  #pauseMs = FIRST_PAUSE_MS;
  /** Settles with the piece in progress; null when there is none. */
  #inProgress: Promise<void> | null = null;
  #isScheduled = false;
  /** On the clock of `performance.now()`: when the lock was first found taken, since it was last free; null when it was free. */
  #busySince: number | null = null;

  /** @param waitMs how long each piece of work may wait for the lock; 0 = it fails at once */
  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  /** For how long every attempt has found the lock taken, milliseconds; 0 when nothing waits for it. */
  get waitedMs(): number {
    return this.#busySince === null || this.#waiting.length === 0 ? 0 : performance.now() - this.#busySince;
  }

  /**
   * Begins `attempt` before this method returns when nothing is in its way, else behind what came before. While it is in progress nothing else
   * runs.
   *
   * @param attempt throws `store.busy` at once, with nothing left behind, when the lock is taken
   * @throws what `attempt` throws or rejects with; `store.busy` when the time is over
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

  /** Does `read`, which needs no lock for writing: behind the piece in progress, before what waits. It waits itself where it finds a lock. */
  runNext<Result>(read: () => Result): Promise<Result> {
    if (this.#inProgress !== null) return this.settle().then(() => this.runNext(read));
    try {
      return Promise.resolve(read());
    } catch (error) {
      if (!isBusy(error) || this.#waitMs <= 0) return Promise.reject(error as Error);
      return this.run(() => Promise.resolve(read()));
    }
  }

  /** Resolves when no piece is in progress. */
  async settle(): Promise<void> {
    while (this.#inProgress !== null) await this.#inProgress;
  }

  #follow<Result>(piece: Promise<Result>): Promise<Result> {
    this.#busySince = null;
    this.#pauseMs = FIRST_PAUSE_MS;
    const ended = () => {
      this.#inProgress = null;
      // One commit a turn of the event loop: each waits for the disk.
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
        this.#giveUpLate(error);
        this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
        this.#tryLater();
        return;
      }
      this.#waiting.shift();
      first.reject(error);
      this.#tryLater(0);
    }
  }

  /** Deadlines are in order, as all wait equally long. */
  #giveUpLate(error: unknown): void {
    const now = performance.now();
    while (this.#waiting[0] !== undefined && this.#waiting[0].deadline <= now) this.#waiting.shift()?.reject(error);
  }
}

interface Waiter {
  /** Settles the promise in the end; throws at once when it cannot begin. */
  readonly begin: () => void;
  readonly reject: (error: unknown) => void;
  /** On the clock of `performance.now()`. */
  readonly deadline: number;
}

function isBusy(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.busy';
}
