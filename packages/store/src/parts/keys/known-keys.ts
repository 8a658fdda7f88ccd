import type { Caller } from './keys.ts';
import { LastKnown } from '../last-known.ts';
import { digestOf } from './key-secret.ts';
import type { FoundKey } from './key-table.ts';

/** Bounds the memory; when reached, keys are read again. */
const MAX_KEYS = 1_000;

interface KnownKey extends FoundKey {
  /** Version of the database before the key was read. */
  readonly version: number;
}

interface KeySource {
  find(digest: Buffer, now: number): Promise<FoundKey | null>;
  /** @see Sql.foreignVersion */
  version(): number | null;
  /** @see Store.database.isAway */
  isAway(): Promise<boolean>;
}

/**
 * Cache of keys that is valid while no other connection changes the database. A client that sends a hundred
 * requests per second has its key read once; a version number shows if it still holds. A key that any process
 * revokes is refused from the next request on. Unknown secrets are not cached, so a new key works at once.
 *
 * A networked database has no such number: each key is read, and its last value is used while the database is
 * away (`LastKnown`).
 */
export class KnownKeys {
  readonly #source: KeySource;
  readonly #known = new Map<string, KnownKey>();
  readonly #lastKnown: LastKnown<FoundKey | null>;
  #numChanges = 0;

  /** @param outageMs time for which a key is used while the database is away. Default 0 */
  constructor(source: KeySource, { outageMs = 0 }: { readonly outageMs?: number } = {}) {
    this.#source = source;
    this.#lastKnown = new LastKnown({ lifetimeMs: outageMs, isAway: () => source.isAway() });
  }

  async verify(secret: string, now: number): Promise<Caller | null> {
    const digest = digestOf(secret);
    // By digest, so that the time of a lookup reveals nothing about a secret.
    const name = digest.toString('latin1');
    const version = this.#source.version();
    if (version === null) return await this.#read(name, digest, now);
    const known = this.#known.get(name);
    if (known !== undefined && known.version === version)
      return known.expiresAt === null || known.expiresAt > now ? known.caller : null;
    const before = this.#numChanges;
    const found = await this.#source.find(digest, now);
    this.#known.delete(name);
    // A value read before a change may be outdated.
    if (found !== null && before === this.#numChanges) this.#keep(name, { ...found, version });
    return found?.caller ?? null;
  }

  /** Invalidates after this process has changed keys, which its own version number does not show. */
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
