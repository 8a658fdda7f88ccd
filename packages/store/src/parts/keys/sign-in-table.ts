import { randomBytes } from 'node:crypto';
import { digestOf } from './key-secret.ts';
import type { SignIn, SignInKind } from './sign-ins.ts';
import type { Statements } from '../../contract/sql.ts';

/** Lifetimes: 30 days for a session, 15 minutes for a link. */
const LIFETIME_MS: Record<SignInKind, number> = { session: 30 * 24 * 3600 * 1000, link: 15 * 60 * 1000 };
/**
 * Maximum sessions or links per key; beyond it the oldest end. More than a person's browsers, and a bound on
 * disk use.
 */
const MAX_OF_A_KEY = 100;

/**
 * Sessions of browsers and links that start them. A secret has 256 random bits, so one plain SHA-256 is
 * enough.
 */
export class SignInTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async create(kind: SignInKind, keyId: string, now: number): Promise<SignIn> {
    const secret = randomBytes(32).toString('base64url');
    const expiresAt = now + LIFETIME_MS[kind];
    await this.#sql.run(
      'insert into sign_ins (kind, secret_sha256, key_id, expires_at) values (?, ?, ?, ?)',
      kind,
      digestOf(secret),
      keyId,
      expiresAt,
    );
    await this.#sql.run(
      `delete from sign_ins where key_id = ? and kind = ? and position not in (
         select position from sign_ins where key_id = ? and kind = ? order by position desc limit ?)`,
      keyId,
      kind,
      keyId,
      kind,
      MAX_OF_A_KEY,
    );
    return { secret, expiresAt };
  }

  /** Finds the key of an unexpired one; the key itself may have expired. */
  async find(kind: SignInKind, secret: string, now: number): Promise<{ keyId: string; expiresAt: number } | null> {
    const row = await this.#sql.get<{ key_id: string; expires_at: number }>(
      'select key_id, expires_at from sign_ins where secret_sha256 = ? and kind = ? and expires_at > ?',
      digestOf(secret),
      kind,
      now,
    );
    return row === undefined ? null : { keyId: row.key_id, expiresAt: row.expires_at };
  }

  /** @returns true if there was one */
  async remove(kind: SignInKind, secret: string): Promise<boolean> {
    const numRemoved = await this.#sql.run(
      'delete from sign_ins where secret_sha256 = ? and kind = ?',
      digestOf(secret),
      kind,
    );
    return numRemoved > 0;
  }

  /** Removes those of revoked keys: a key that is made valid again starts without them. */
  async removeOfRevokedKeys(): Promise<void> {
    await this.#sql.run('delete from sign_ins where key_id in (select id from api_keys where revoked_at is not null)');
  }

  async purge(now: number): Promise<void> {
    await this.#sql.run('delete from sign_ins where expires_at <= ?', now);
  }
}
