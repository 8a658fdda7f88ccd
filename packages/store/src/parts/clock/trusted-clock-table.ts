import type { Statements } from '../../contract/sql.ts';

/** Times of the newest rows, each found by an index or in a small table. */
const NEWEST_ROWS = `
  select max(created_at) as at from feed
  union all select max(created_at) from jobs
  union all select max(created_at) from models
  union all select max(created_at) from api_keys
  union all select max(recorded_at) from usage`;

/** Clock for the removal of old data: its last trusted reading. */
export class TrustedClockTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** Returns the last trusted reading; without one the time of the newest row; null without rows. */
  async at(): Promise<number | null> {
    const row = await this.#sql.get<{ trusted_at: number }>('select trusted_at from trusted_clock');
    if (row !== undefined) return row.trusted_at;
    return (
      (await this.#sql.get<{ at: number | null }>(`select max(at) as at from (${NEWEST_ROWS}) newest`))?.at ?? null
    );
  }

  async set(trustedAt: number): Promise<void> {
    await this.#sql.run(
      `insert into trusted_clock (only_row, trusted_at) values (1, ?)
       on conflict (only_row) do update set trusted_at = excluded.trusted_at`,
      trustedAt,
    );
  }
}
