import { StoreError } from '../contract/errors.ts';
import { settledWithin } from './settled-within.ts';

/** Bounds the memory; beyond it the oldest is read again. */
const MAX_ENTRIES = 1_000;
/** Duration of a read after which the database is asked if it is there. */
const PATIENCE_MS = 1_000;
/** Time between two attempts while it is away. */
const RETRY_MS = 1_000;

export interface LastKnownOptions {
  /** Lifetime of a value after its last read, ms; 0 disables the cache. */
  readonly lifetimeMs: number;
  /** True if the database does not answer at all. May take seconds; never rejects. */
  readonly isAway: () => Promise<boolean>;
  /** Default 1 s. */
  readonly patienceMs?: number;
  /** Monotonic, ms; default `performance.now`. */
  readonly now?: () => number;
}

/** A value, and true if it was read before the database went away. */
export interface Known<Value> {
  readonly value: Value;
  readonly isRemembered: boolean;
}

interface Entry<Value> {
  readonly value: Value;
  readonly readAt: number;
}

/**
 * Values of the database, read each time while it answers. While it does not, a recently read value is
 * reused. So a value that another process removes stays in use for at most that lifetime. `null` is never
 * cached.
 */
export class LastKnown<Value> {
  readonly #lifetimeMs: number;
  readonly #isAway: () => Promise<boolean>;
  readonly #patienceMs: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry<Value>>();
  #numClears = 0;
  /** Earliest time to ask the database for values that are cached. */
  #retryAt = -Infinity;
  /** The database did not answer when last asked. Until it does, reads are not attempted. */
  #isSilent = false;
  #isAsking = false;

  constructor({ lifetimeMs, isAway, patienceMs = PATIENCE_MS, now = () => performance.now() }: LastKnownOptions) {
    this.#lifetimeMs = lifetimeMs;
    this.#isAway = isAway;
    this.#patienceMs = patienceMs;
    this.#now = now;
  }

  /**
   * Waits for a late read while the database answers: a busy database may hold a key that was revoked.
   * @throws {StoreError} `store.unavailable` if the value is not cached either
   */
  async read(name: string, read: () => Promise<Value>): Promise<Known<Value>> {
    const known = this.#remembered(name);
    if (known === null) return { value: await this.#readNow(name, read), isRemembered: false };
    if (this.#now() >= this.#retryAt) {
      const found = this.#isSilent ? this.#askAgain() : await this.#readUnlessAway(name, read);
      if (found !== null) return { value: found.value, isRemembered: false };
      this.#retryAt = this.#now() + RETRY_MS;
    }
    return { value: known.value, isRemembered: true };
  }

  /** Invalidates all values after this process has changed some. */
  clear(): void {
    this.#numClears += 1;
    this.#entries.clear();
  }

  #remembered(name: string): Entry<Value> | null {
    const entry = this.#entries.get(name);
    if (entry === undefined) return null;
    if (this.#now() - entry.readAt < this.#lifetimeMs) return entry;
    this.#entries.delete(name);
    return null;
  }

  async #readNow(name: string, read: () => Promise<Value>): Promise<Value> {
    const numClears = this.#numClears;
    let value: Value;
    try {
      value = await read();
    } catch (error) {
      // The database has answered: a model that is gone must not stay cached.
      if (!(error instanceof StoreError)) this.#entries.delete(name);
      throw error;
    }
    this.#hasAnswered();
    this.#entries.delete(name);
    // A value read before a change may be outdated.
    if (value !== null && this.#lifetimeMs > 0 && numClears === this.#numClears) this.#keep(name, value);
    return value;
  }

  /** Returns null if the database is away. */
  async #readUnlessAway(name: string, read: () => Promise<Value>): Promise<{ readonly value: Value } | null> {
    const reading = this.#readNow(name, read).then(
      (value) => ({ value }),
      (error: unknown) => {
        if (error instanceof StoreError && error.code === 'store.unavailable') return null;
        throw error;
      },
    );
    // After the database was found to be away, no caller reads this failure.
    reading.catch(() => undefined);
    while (!(await settledWithin(reading, this.#patienceMs))) {
      const isAway = await Promise.race([this.#isAway(), reading.then(() => false)]);
      if (!isAway) continue;
      this.#isSilent = true;
      return null;
    }
    return await reading;
  }

  /** Asks if the database is back, while cached values are used. */
  #askAgain(): null {
    if (this.#isAsking) return null;
    this.#isAsking = true;
    void this.#isAway()
      .then((isAway) => {
        if (!isAway) this.#hasAnswered();
      })
      .finally(() => (this.#isAsking = false));
    return null;
  }

  #hasAnswered(): void {
    this.#isSilent = false;
    this.#retryAt = -Infinity;
  }

  #keep(name: string, value: Value): void {
    const [oldest] = this.#entries.keys();
    if (this.#entries.size >= MAX_ENTRIES && oldest !== undefined) this.#entries.delete(oldest);
    this.#entries.set(name, { value, readAt: this.#now() });
  }
}
