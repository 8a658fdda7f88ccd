import { StoreError } from '../contract/errors.ts';

/** Bounds the memory; the oldest is read again then. */
const MAX_ENTRIES = 1_000;
/** A database that takes longer is taken for away, for what is remembered. */
const PATIENCE_MS = 1_000;
/** Time between two tries while it is away. */
const RETRY_MS = 1_000;

export interface LastKnownOptions {
  /** How long a value is used after it was read last, ms; 0: not at all. */
  readonly lifetimeMs: number;
  /** Default 1 s. */
  readonly patienceMs?: number;
  /** Monotonic, ms; default `performance.now`. */
  readonly now?: () => number;
}

/** A value, and whether it is remembered from before the database went away. */
export interface Known<Value> {
  readonly value: Value;
  readonly isRemembered: boolean;
}

interface Entry<Value> {
  readonly value: Value;
  readonly readAt: number;
}

/**
 * Values of the database, each read anew for as long as it answers. While it does not, a value that was read a short while ago is used as it was: so what another
 * process has taken away meanwhile is used for that while at most. `null` is never remembered.
 */
export class LastKnown<Value> {
  readonly #lifetimeMs: number;
  readonly #patienceMs: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry<Value>>();
  #numClears = 0;
  /** The database is not asked before, for values that are remembered. */
  #retryAt = -Infinity;
  /** A read that took too long goes on: while it does, no other one is made in vain. */
  #isReading = false;

  constructor({ lifetimeMs, patienceMs = PATIENCE_MS, now = () => performance.now() }: LastKnownOptions) {
    this.#lifetimeMs = lifetimeMs;
    this.#patienceMs = patienceMs;
    this.#now = now;
  }

  /** @throws {StoreError} `store.unavailable` when the value is not remembered either */
  async read(name: string, read: () => Promise<Value>): Promise<Known<Value>> {
    const known = this.#remembered(name);
    if (known === null) return { value: await this.#readNow(name, read), isRemembered: false };
    if (!this.#isReading && this.#now() >= this.#retryAt) {
      const found = await this.#readWithPatience(name, read);
      if (found !== null) return { value: found.value, isRemembered: false };
      this.#retryAt = this.#now() + RETRY_MS;
    }
    return { value: known.value, isRemembered: true };
  }

  /** This process has changed values: each is read again. */
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
    const value = await read();
    this.#entries.delete(name);
    // What was read before a change may be what it was.
    if (value !== null && this.#lifetimeMs > 0 && numClears === this.#numClears) this.#keep(name, value);
    return value;
  }

  /** Null when the database does not answer, or not in time. */
  async #readWithPatience(name: string, read: () => Promise<Value>): Promise<{ readonly value: Value } | null> {
    const late = Promise.withResolvers<null>();
    const timer = setTimeout(() => {
      this.#isReading = true;
      late.resolve(null);
    }, this.#patienceMs);
    const reading = this.#readNow(name, read)
      .then((value) => ({ value }))
      .catch((error: unknown) => {
        if (error instanceof StoreError && error.code === 'store.unavailable') return null;
        throw error;
      })
      .finally(() => {
        clearTimeout(timer);
        this.#isReading = false;
      });
    // Its failure after the time has no reader.
    reading.catch(() => undefined);
    return await Promise.race([reading, late.promise]);
  }

  #keep(name: string, value: Value): void {
    const [oldest] = this.#entries.keys();
    if (this.#entries.size >= MAX_ENTRIES && oldest !== undefined) this.#entries.delete(oldest);
    this.#entries.set(name, { value, readAt: this.#now() });
  }
}
