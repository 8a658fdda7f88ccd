import type { Feed } from '@trainyard/store';

/** Delay until another process's writes are noticed. */
const LOOK_MS = 500;

/**
 * Wakes callers that wait for changes, of any process. One check of the store serves all of them, and runs
 * only while someone waits.
 */
export class FeedWatch {
  readonly #feed: Pick<Feed, 'lastPosition'>;
  readonly #lookMs: number;
  readonly #unwatch: () => void;
  #waiting = new Set<() => void>();
  #lastSeen: number | null = null;
  #numChanges = 0;
  #timer: NodeJS.Timeout | null = null;
  #isLooking = false;
  /** Notified during a check, which may have missed the change. */
  #looksAgain = false;
  #isClosed = false;

  constructor(feed: Pick<Feed, 'lastPosition' | 'watch'>, lookMs: number = LOOK_MS) {
    this.#feed = feed;
    this.#lookMs = lookMs;
    this.#unwatch = feed.watch(() => this.#lookNow());
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Number of noticed changes. Read it before reading the store: `change` then misses no later change. */
  get numChanges(): number {
    return this.#numChanges;
  }

  /**
   * Resolves when something may have changed since that count, when the signal aborts, or when the watch is
   * closed.
   */
  async change(since: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#isClosed || this.#numChanges !== since) return;
    const woken = Promise.withResolvers<void>();
    const wake = () => woken.resolve();
    this.#waiting.add(wake);
    signal.addEventListener('abort', wake, { once: true });
    this.#lookIn(this.#lookMs);
    await woken.promise;
    signal.removeEventListener('abort', wake);
    this.#waiting.delete(wake);
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#wakeAll();
  }

  #lookNow(): void {
    if (this.#isLooking) this.#looksAgain = true;
    if (this.#isLooking || this.#waiting.size === 0) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#lookIn(0);
  }

  #lookIn(ms: number): void {
    if (this.#isClosed || this.#isLooking) return;
    this.#timer ??= setTimeout(() => void this.#look(), ms);
  }

  async #look(): Promise<void> {
    this.#timer = null;
    this.#isLooking = true;
    this.#looksAgain = false;
    try {
      const last = await this.#feed.lastPosition();
      // The first check has nothing to compare with.
      if (last !== this.#lastSeen) this.#wakeAll();
      this.#lastSeen = last;
    } catch {
      // The store is busy: the next check follows.
    }
    this.#isLooking = false;
    if (this.#waiting.size > 0) this.#lookIn(this.#looksAgain ? 0 : this.#lookMs);
    // The next waiter will have read the store itself.
    else this.#lastSeen = null;
  }

  #wakeAll(): void {
    this.#numChanges += 1;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const wake of waiting) wake();
  }
}
