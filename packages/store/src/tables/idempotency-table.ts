import type { IdempotentAnswer, IdempotentState } from '../contract/store.ts';
import type { Statements } from '../contract/sql.ts';

type RequestRow = { request_hash: string; status: number | null; body: string | null; owner: string | null };

const LIFETIME_MS = 24 * 3600 * 1000;

/** One record for each `Idempotency-Key` in use: in progress until it has a status, then the answer to repeat. */
export class IdempotencyTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @param by `isAtIt` false: of what bears this owner's name as in progress, nothing is */
  async begin(
    { keyId, key, requestHash }: { keyId: string; key: string; requestHash: string },
    by: { owner: string; isAtIt: boolean },
    now: number,
  ): Promise<IdempotentState> {
    const { owner } = by;
    const record = await this.#sql.get<RequestRow>(
      'select request_hash, status, body, owner from idempotency_records where key_id = ? and key = ? and expires_at > ?',
      keyId,
      key,
      now,
    );
    if (record === undefined || (record.status === null && record.owner === owner && !by.isAtIt)) {
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

  /** Only what this owner began: another may have begun it meanwhile. */
  async abandon({ keyId, key }: { keyId: string; key: string }, owner: string): Promise<void> {
    await this.#sql.run(
      'delete from idempotency_records where key_id = ? and key = ? and owner = ? and status is null',
      keyId,
      key,
      owner,
    );
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
