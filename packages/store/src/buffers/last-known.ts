import { StoreError } from '../contract/errors.ts';
import { settledWithin } from './settled-within.ts';

/** Bounds the memory; the oldest is read again then. */
const MAX_ENTRIES = 1_000;
/** A read that takes longer makes the database be asked whether it is there. */
const PATIENCE_MS = 1_000;
/** Time between two tries while it is away. */
const RETRY_MS = 1_000;

export interface LastKnownOptions {
  /** How long a value is used after it was read last, ms; 0: not at all. */
  readonly lifetimeMs: number;
  /** Whether the database does not answer at all. It may take seconds, and never rejects. */
  readonly isAway: () => Promise<boolean>;
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
  readonly #isAway: () => Promise<boolean>;
  readonly #patienceMs: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry<Value>>();
  #numClears = 0;
  /** The database is not asked before, for values that are remembered. */
  #retryAt = -Infinity;
  /** It did not answer when it was asked last: until it does, no read is made in vain. */
  #isSilent = false;
  #isAsking = false;

  constructor({ lifetimeMs, isAway, patienceMs = PATIENCE_MS, now = () => performance.now() }: LastKnownOptions) {
    this.#lifetimeMs = lifetimeMs;
    this.#isAway = isAway;
    this.#patienceMs = patienceMs;
    this.#now = now;
  }

  /**
   * A late read is waited for as long as the database answers: one that is busy may have a key that was revoked.
   * @throws {StoreError} `store.unavailable` when the value is not remembered either
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
    let value: Value;
    try {
      value = await read();
    } catch (error) {
      // The database has answered: a model that is gone is no model to remember.
      if (!(error instanceof StoreError)) this.#entries.delete(name);
      throw error;
    }
    this.#hasAnswered();
    this.#entries.delete(name);
    // What was read before a change may be what it was.
    if (value !== null && this.#lifetimeMs > 0 && numClears === this.#numClears) this.#keep(name, value);
    return value;
  }

  /** Null when the database is away. */
  async #readUnlessAway(name: string, read: () => Promise<Value>): Promise<{ readonly value: Value } | null> {
    const reading = this.#readNow(name, read).then(
      (value) => ({ value }),
      (error: unknown) => {
        if (error instanceof StoreError && error.code === 'store.unavailable') return null;
        throw error;
      },
    );
    // Its failure after the database was found to be away has no reader.
    reading.catch(() => undefined);
    while (!(await settledWithin(reading, this.#patienceMs))) {
      const isAway = await Promise.race([this.#isAway(), reading.then(() => false)]);
      if (!isAway) continue;
      this.#isSilent = true;
      return null;
    }
    return await reading;
  }

  /** Asks whether the database is there again, while remembered values are used. */
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
