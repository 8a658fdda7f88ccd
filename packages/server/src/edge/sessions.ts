import { createHash, randomBytes } from 'node:crypto';

import type { ApiKey, Store } from '@trainyard/store';

/** How long a browser stays signed in, ms. */
export const SESSION_LIFETIME_MS = 30 * 24 * 3_600_000;
/** How long a sign-in link works, ms. */
const LINK_LIFETIME_MS = 15 * 60_000;
/** Above so many of one key the oldest end: nobody has more browsers, and a loop cannot fill the memory. */
const MAX_OF_A_KEY = 100;

/** Something that a secret opens until a time. */
interface Grant {
  readonly keyId: string;
  readonly expiresAt: number;
}

/** A browser that is signed in. */
export interface Session {
  readonly key: ApiKey;
  readonly expiresAt: number;
}

/**
 * Who is signed in, and which links sign in. A session has the rights of a key, as they are at that moment, and ends with it. Of every secret only the
 * SHA-256 is kept: what has 256 random bits cannot be guessed.
 */
export class Sessions {
  readonly #store: Pick<Store, 'getKey'>;
  readonly #clock: () => number;
  readonly #sessions = new Map<string, Grant>();
  readonly #links = new Map<string, Grant>();

  constructor(store: Pick<Store, 'getKey'>, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  /** A link's secret: it works once. */
  makeLink(keyId: string): { readonly code: string; readonly expiresAt: number } {
    const { secret, expiresAt } = this.#grant(this.#links, keyId, LINK_LIFETIME_MS);
    return { code: secret, expiresAt };
  }

  /** @returns the key that a link stands for; null when it was used, has expired or never was */
  redeem(code: string): string | null {
    const digest = digestOf(code);
    const link = this.#links.get(digest);
    this.#links.delete(digest);
    return link === undefined || link.expiresAt <= this.#clock() ? null : link.keyId;
  }

  /** @returns what the browser keeps */
  open(keyId: string): { readonly token: string; readonly expiresAt: number } {
    const { secret, expiresAt } = this.#grant(this.#sessions, keyId, SESSION_LIFETIME_MS);
    return { token: secret, expiresAt };
  }

  /** Null when it has ended, or its key is not valid any more. */
  async find(token: string): Promise<Session | null> {
    const digest = digestOf(token);
    const session = this.#sessions.get(digest);
    if (session === undefined) return null;
    const key = await this.#store.getKey(session.keyId);
    const now = this.#clock();
    const isValid =
      session.expiresAt > now &&
      key !== null &&
      key.revokedAt === null &&
      (key.expiresAt === null || key.expiresAt > now);
    if (isValid) return { key, expiresAt: Math.min(session.expiresAt, key.expiresAt ?? Infinity) };
    this.#sessions.delete(digest);
    return null;
  }

  close(token: string): void {
    this.#sessions.delete(digestOf(token));
  }

  #grant(grants: Map<string, Grant>, keyId: string, lifetimeMs: number): { secret: string; expiresAt: number } {
    const now = this.#clock();
    for (const [digest, { expiresAt }] of grants) if (expiresAt <= now) grants.delete(digest);
    const ofKey = [...grants].filter(([, grant]) => grant.keyId === keyId);
    for (const [digest] of ofKey.slice(0, Math.max(0, ofKey.length - MAX_OF_A_KEY + 1))) grants.delete(digest);
    const secret = randomBytes(32).toString('base64url');
    const expiresAt = now + lifetimeMs;
    grants.set(digestOf(secret), { keyId, expiresAt });
    return { secret, expiresAt };
  }
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64');
}
