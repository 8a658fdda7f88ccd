import type { IdempotentAnswer, IdempotentState } from '../contract/store.ts';
import type { Statements } from '../contract/sql.ts';

const LIFETIME_MS = 24 * 3600 * 1000;

/** One record for each `Idempotency-Key` in use: in progress until it has a status, then the answer to repeat. */
export class IdempotencyTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async begin(
    { keyId, key, requestHash }: { keyId: string; key: string; requestHash: string },
    owner: string,
    now: number,
  ): Promise<IdempotentState> {
    const record = await this.#sql.get<{ request_hash: string; status: number | null; body: string | null }>(
      'select request_hash, status, body from idempotency_records where key_id = ? and key = ? and expires_at > ?',
      keyId,
      key,
      now,
    );
    if (record === undefined) {
      await this.#sql.run(
        `insert into idempotency_records (key_id, key, request_hash, owner, created_at, expires_at) values (?, ?, ?, ?, ?, ?)
         on conflict (key_id, key) do update set request_hash = excluded.request_hash, owner = excluded.owner, status = null, body = null,
           created_at = excluded.created_at, expires_at = excluded.expires_at`,
        keyId,
        key,
        requestHash,
        owner,
        now,
        now + LIFETIME_MS,
      );
      return { kind: 'started' };
    }
    if (record.request_hash !== requestHash) return { kind: 'mismatch' };
    if (record.status === null || record.body === null) return { kind: 'in_progress' };
    return { kind: 'completed', status: record.status, body: record.body };
  }

  async complete(answer: IdempotentAnswer): Promise<void> {
    await this.#sql.run(
      'update idempotency_records set status = ?, body = ? where key_id = ? and key = ? and status is null',
      answer.status,
      answer.body,
      answer.keyId,
      answer.key,
    );
  }

  async abandon({ keyId, key }: { keyId: string; key: string }): Promise<void> {
    await this.#sql.run('delete from idempotency_records where key_id = ? and key = ? and status is null', keyId, key);
  }

  /** Requests that this process had not answered, or that are from before they bore a name. */
  async dropInProgress(owner: string): Promise<number> {
    return await this.#sql.run(
      'delete from idempotency_records where status is null and (owner is null or owner = ?)',
      owner,
    );
  }

  async purge(now: number): Promise<number> {
    return await this.#sql.run('delete from idempotency_records where expires_at <= ?', now);
  }
}
