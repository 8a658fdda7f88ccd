import type { ApiKey } from './keys.ts';

/** Sessions of signed-in browsers, and links that start one. */
export interface SignIns {
  /**
   * Signs a browser in for 30 days with a secret of 256 random bits, which only this call returns. Keeps the
   * newest 100 per key.
   */
  openSession(keyId: string): Promise<SignIn>;
  /** Returns null if it is unknown or has ended, or its key is no longer valid. */
  findSession(secret: string): Promise<Session | null>;
  closeSession(secret: string): Promise<void>;
  /** Creates a link that works once, within 15 minutes; otherwise as `openSession`. */
  createLink(keyId: string): Promise<SignIn>;
  /** Uses up a link. @returns the id of its key; null if it was used, has expired or never existed */
  redeemLink(secret: string): Promise<string | null>;
}

/** Stand-in for a key in a browser: a session, or a link that starts one. */
export type SignInKind = 'session' | 'link';

/** A new session or link. Only the SHA-256 of its secret is stored. */
export interface SignIn {
  secret: string;
  expiresAt: number;
}

/** A signed-in browser, with the present rights of its key. */
export interface Session {
  key: ApiKey;
  /** The earlier of its own end and that of its key. */
  expiresAt: number;
}
