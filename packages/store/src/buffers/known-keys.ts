import type { Caller } from '../contract/records.ts';
import { digestOf } from '../tables/keys/key-secret.ts';
import type { FoundKey } from '../tables/keys/key-table.ts';

/** For so long a key counts as it was found: as long as the answers of a revoked one go on at most. */
const FRESH_MS = 500;
/** Bounds the memory; so many are found anew then. */
const MAX_KEYS = 1_000;

interface KnownKey extends FoundKey {
  readonly foundAt: number;
}

/**
 * Keys as they were found a moment ago, so that a client that sends a hundred requests a second does not ask the database a hundred times: that takes a twelfth of
 * what a streamed chat costs here with SQLite, and a message and its answer with PostgreSQL. What this process changes counts at once; what others change,
 * half a second later at most. Secrets that are no key are not remembered: a new one works as soon as it is there.
 */
export class KnownKeys {
  readonly #find: (digest: Buffer, now: number) => Promise<FoundKey | null>;
  readonly #known = new Map<string, KnownKey>();
  #numChanges = 0;

  constructor(find: (digest: Buffer, now: number) => Promise<FoundKey | null>) {
    this.#find = find;
  }

  async verify(secret: string, now: number): Promise<Caller | null> {
    const digest = digestOf(secret);
    // By its digest: how long a look takes says nothing about a secret.
    const name = digest.toString('latin1');
    const known = this.#known.get(name);
    // A clock that was set back would keep a key for as long.
    if (known !== undefined && now - known.foundAt < FRESH_MS && now >= known.foundAt) {
      return known.expiresAt === null || known.expiresAt > now ? known.caller : null;
    }
    const before = this.#numChanges;
    const found = await this.#find(digest, now);
    this.#known.delete(name);
    // What was found before a change may be what it was.
    if (found !== null && before === this.#numChanges) this.#keep(name, { ...found, foundAt: now });
    return found?.caller ?? null;
  }

  /** Keys were changed: they are found anew. */
  changed(): void {
    this.#numChanges += 1;
    this.#known.clear();
  }

  #keep(name: string, key: KnownKey): void {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(name, key);
  }
}
