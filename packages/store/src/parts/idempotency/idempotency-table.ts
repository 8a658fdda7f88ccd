import type { IdempotentAnswer, IdempotentState } from './idempotency.ts';
import { holds, leaseBounds } from '../../contract/lease.ts';
import type { Statements } from '../../contract/sql.ts';

type RequestRow = { request_hash: string; status: number | null; body: string | null; owner: string | null };

const LIFETIME_MS = 24 * 3600 * 1000;
/**
 * Time without a renewal after which the process of a request counts as dead; the next to send it starts it.
 */
const IN_PROGRESS_MS = 60_000;

/**
 * One record per `Idempotency-Key`: in progress while its owner renews it, until it has a status; then the
 * answer to repeat.
 */
export class IdempotencyTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /**
   * Claims the request or returns its state. Kept answers are repeated: only `purge` removes them, when the
   * clock can be trusted.
   * @param by `isAtIt` false: this owner is not working on its records in progress
   */
  async begin(
    { keyId, key, requestHash }: { keyId: string; key: string; requestHash: string },
    by: { owner: string; isAtIt: boolean },
    now: number,
  ): Promise<IdempotentState> {
    const { owner } = by;
    const record = await this.#sql.get<RequestRow>(
      `select request_hash, status, body, owner from idempotency_records
       where key_id = ? and key = ? and (status is not null or owner = ? or ${holds('expires_at')})`,
      keyId,
      key,
      owner,
      ...leaseBounds(now),
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
        now + IN_PROGRESS_MS,
      );
      return { kind: 'started' };
    }
    if (record.request_hash !== requestHash) return { kind: 'mismatch' };
    if (record.status === null || record.body === null) return { kind: 'in_progress' };
    return { kind: 'completed', status: record.status, body: record.body };
  }

  /**
   * Keeps the answer to a request of this owner. @returns false if it is gone, complete, or another's by now
   */
  async complete(answer: IdempotentAnswer, owner: string, now: number): Promise<boolean> {
    const numChanged = await this.#sql.run(
      'update idempotency_records set status = ?, body = ?, expires_at = ? where key_id = ? and key = ? and owner = ? and status is null',
      answer.status,
      answer.body,
      now + LIFETIME_MS,
      answer.keyId,
      answer.key,
      owner,
    );
    return numChanged === 1;
  }

  /** Renews this owner's records in progress. */
  async renew(owner: string, now: number): Promise<void> {
    await this.#sql.run(
      'update idempotency_records set expires_at = ? where owner = ? and status is null',
      now + IN_PROGRESS_MS,
      owner,
    );
  }

  /**
   * Deletes only this owner's record: another may have claimed it meanwhile. @returns true if it was this
   * owner's
   */
  async abandon({ keyId, key }: { keyId: string; key: string }, owner: string): Promise<boolean> {
    const numChanged = await this.#sql.run(
      'delete from idempotency_records where key_id = ? and key = ? and owner = ? and status is null',
      keyId,
      key,
      owner,
    );
    return numChanged === 1;
  }

  /** Deletes unanswered requests of this process, and those older than the owner column. */
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
