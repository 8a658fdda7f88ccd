import type { Caller } from '../contract/records.ts';
import { LastKnown } from './last-known.ts';
import { digestOf } from '../tables/keys/key-secret.ts';
import type { FoundKey } from '../tables/keys/key-table.ts';

/** Bounds the memory; so many are found anew then. */
const MAX_KEYS = 1_000;

interface KnownKey extends FoundKey {
  /** The database's, before it was read. */
  readonly version: number;
}

interface KeySource {
  find(digest: Buffer, now: number): Promise<FoundKey | null>;
  /** @see Sql.foreignVersion */
  version(): number | null;
  /** @see Store.isAway */
  isAway(): Promise<boolean>;
}

/**
 * Keys as they were found, for as long as nobody has changed the database since: a client that sends a hundred requests a second has its key read once, and whether it
 * still holds is seen by a number. So a key that is revoked, here or by another process, is refused from the next request on, as if it were read each time.
 * Secrets that are no key are not remembered: a new one works as soon as it is there.
 *
 * A database over a network has no such number: there each key is read, and used as it was read last while the database is away (`LastKnown`).
 */
export class KnownKeys {
  readonly #source: KeySource;
  readonly #known = new Map<string, KnownKey>();
  readonly #lastKnown: LastKnown<FoundKey | null>;
  #numChanges = 0;

  /** @param outageMs how long a key is used while the database is away. Default 0 */
  constructor(source: KeySource, { outageMs = 0 }: { readonly outageMs?: number } = {}) {
    this.#source = source;
    this.#lastKnown = new LastKnown({ lifetimeMs: outageMs, isAway: () => source.isAway() });
  }

  async verify(secret: string, now: number): Promise<Caller | null> {
    const digest = digestOf(secret);
    // By its digest: how long a look takes says nothing about a secret.
    const name = digest.toString('latin1');
    const version = this.#source.version();
    if (version === null) return await this.#read(name, digest, now);
    const known = this.#known.get(name);
    if (known !== undefined && known.version === version)
      return known.expiresAt === null || known.expiresAt > now ? known.caller : null;
    const before = this.#numChanges;
    const found = await this.#source.find(digest, now);
    this.#known.delete(name);
    // What was found before a change may be what it was.
    if (found !== null && before === this.#numChanges) this.#keep(name, { ...found, version });
    return found?.caller ?? null;
  }

  /** This process has changed keys, which its own version does not tell: they are found anew. */
  changed(): void {
    this.#numChanges += 1;
    this.#known.clear();
    this.#lastKnown.clear();
  }

  async #read(name: string, digest: Buffer, now: number): Promise<Caller | null> {
    const { value: found, isRemembered } = await this.#lastKnown.read(name, () => this.#source.find(digest, now));
    if (found === null || !isRemembered) return found?.caller ?? null;
    return found.expiresAt === null || found.expiresAt > now ? { ...found.caller, isRemembered } : null;
  }

  #keep(name: string, key: KnownKey): void {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(name, key);
  }
}
