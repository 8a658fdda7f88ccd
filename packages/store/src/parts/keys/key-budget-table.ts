import type { KeyBudget } from './key-limits.ts';
import { holds, leaseBounds } from '../../contract/lease.ts';
import type { Statements } from '../../contract/sql.ts';

/** Budgets of limited keys: one row per key, and one per process with requests in flight. */
export class KeyBudgetTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** Returns the budget as last written, without requests in flight of other processes. */
  async get(keyId: string): Promise<KeyBudget | null> {
    const row = await this.#sql.get<{ used_requests: number; used_tokens: number; used_at: number }>(
      'select used_requests, used_tokens, used_at from key_budgets where key_id = ?',
      keyId,
    );
    if (row === undefined) return null;
    return { usedRequests: row.used_requests, usedTokens: row.used_tokens, at: row.used_at, numByOthers: 0 };
  }

  async put(keyId: string, { usedRequests, usedTokens, at }: KeyBudget): Promise<void> {
    await this.#sql.run(
      `insert into key_budgets (key_id, used_requests, used_tokens, used_at) values (?, ?, ?, ?)
       on conflict (key_id) do update set used_requests = excluded.used_requests, used_tokens = excluded.used_tokens, used_at = excluded.used_at`,
      keyId,
      usedRequests,
      usedTokens,
      at,
    );
  }

  /** Counts the key's places held by other processes. */
  async countByOthers(keyId: string, processId: string, now: number): Promise<number> {
    const row = await this.#sql.get<{ total: number }>(
      `select cast(coalesce(sum(num_requests), 0) as bigint) as total from requests_in_flight
       where key_id = ? and process_id <> ? and ${holds('lease_expires_at')}`,
      keyId,
      processId,
      ...leaseBounds(now),
    );
    return row?.total ?? 0;
  }

  async setInFlight(keyId: string, processId: string, numRequests: number, leaseExpiresAt: number): Promise<void> {
    if (numRequests === 0) {
      await this.#sql.run('delete from requests_in_flight where key_id = ? and process_id = ?', keyId, processId);
      return;
    }
    await this.#sql.run(
      `insert into requests_in_flight (key_id, process_id, num_requests, lease_expires_at) values (?, ?, ?, ?)
       on conflict (key_id, process_id) do update set num_requests = excluded.num_requests, lease_expires_at = excluded.lease_expires_at`,
      keyId,
      processId,
      numRequests,
      leaseExpiresAt,
    );
  }

  async removeOf(processId: string): Promise<void> {
    await this.#sql.run('delete from requests_in_flight where process_id = ?', processId);
  }

  /** Removes places with an expired lease, and budgets unused since `unusedSince`. */
  async purge(now: number, unusedSince: number): Promise<void> {
    await this.#sql.run(`delete from requests_in_flight where not ${holds('lease_expires_at')}`, ...leaseBounds(now));
    await this.#sql.run('delete from key_budgets where used_at < ?', unusedSince);
  }
}
