import type { IdempotentAnswer, IdempotentState } from '../store.ts';
import type { Database } from './database.ts';

const LIFETIME_MS = 24 * 3600 * 1000;

/** One record for each `Idempotency-Key` in use: in progress until it has a status, then the answer to repeat. */
export class IdempotencyTable {
  readonly #database: Database;
  constructor(database: Database) {
    this.#database = database;
  }

  begin(
    { keyId, key, requestHash }: { keyId: string; key: string; requestHash: string },
    now: number,
  ): IdempotentState {
    const record = this.#database.get<{ request_hash: string; status: number | null; body: string | null }>(
      'select request_hash, status, body from idempotency_records where key_id = ? and key = ? and expires_at > ?',
      keyId,
      key,
      now,
    );
    if (record === undefined) {
      this.#database.run(
        'insert or replace into idempotency_records (key_id, key, request_hash, created_at, expires_at) values (?, ?, ?, ?, ?)',
        keyId,
        key,
        requestHash,
        now,
        now + LIFETIME_MS,
      );
      return { kind: 'started' };
    }
    if (record.request_hash !== requestHash) return { kind: 'mismatch' };
    if (record.status === null || record.body === null) return { kind: 'in_progress' };
    return { kind: 'completed', status: record.status, body: record.body };
  }

  complete(answer: IdempotentAnswer): void {
    this.#database.run(
      'update idempotency_records set status = ?, body = ? where key_id = ? and key = ? and status is null',
      answer.status,
      answer.body,
      answer.keyId,
      answer.key,
    );
  }

  abandon({ keyId, key }: { keyId: string; key: string }): void {
    this.#database.run('delete from idempotency_records where key_id = ? and key = ? and status is null', keyId, key);
  }

  dropInProgress(): number {
    return this.#database.run('delete from idempotency_records where status is null');
  }

  purge(now: number): number {
    return this.#database.run('delete from idempotency_records where expires_at <= ?', now);
  }
}
