import type { Store } from '@trainyard/store';

/** How soon what another process wrote is seen. */
const LOOK_MS = 500;

/**
 * Wakes whoever waits for something to happen. The store is looked at for all of them together, whichever process wrote to it, and only while
 * somebody waits.
 */
export class FeedWatch {
  readonly #store: Pick<Store, 'lastFeedPosition' | 'watchFeed'>;
  readonly #lookMs: number;
  readonly #unwatch: () => void;
  #waiting = new Set<() => void>();
  #lastSeen: number | null = null;
  #numChanges = 0;
  #timer: NodeJS.Timeout | null = null;
  #isLooking = false;
  /** Told while it looked: what was told of may have come behind the look. */
  #looksAgain = false;
  #isClosed = false;

  constructor(store: Pick<Store, 'lastFeedPosition' | 'watchFeed'>, lookMs: number = LOOK_MS) {
    this.#store = store;
    this.#lookMs = lookMs;
    this.#unwatch = store.watchFeed(() => this.#lookNow());
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** How often something was seen to have happened. Take it before reading: `change` then misses nothing that came after the read. */
  get numChanges(): number {
    return this.#numChanges;
  }

  /** Resolves when something may have happened since that count, when the signal aborts, or when the watch is closed. */
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

  /** Ends every wait, and all that come. */
  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#wakeAll();
  }

  /** Told that something happened. */
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
      const last = await this.#store.lastFeedPosition();
      // At the first look nobody knows what came before it.
      if (last !== this.#lastSeen) this.#wakeAll();
      this.#lastSeen = last;
    } catch {
      // The store is busy: it is looked at again.
    }
    this.#isLooking = false;
    if (this.#waiting.size > 0) this.#lookIn(this.#looksAgain ? 0 : this.#lookMs);
    // Whoever waits next has looked by itself first.
    else this.#lastSeen = null;
  }

  #wakeAll(): void {
    this.#numChanges += 1;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const wake of waiting) wake();
  }
}
