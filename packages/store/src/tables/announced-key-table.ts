import type { Statements } from '../contract/sql.ts';

/** Keys of files that are about to be written, and whose rows follow. */
export class AnnouncedKeyTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async add(key: string, owner: string, now: number): Promise<void> {
    await this.#sql.run(
      `insert into announced_keys (key, owner, announced_at) values (?, ?, ?)
       on conflict (key) do update set owner = excluded.owner, announced_at = excluded.announced_at`,
      key,
      owner,
      now,
    );
  }

  async list(): Promise<string[]> {
    return (await this.#sql.all<{ key: string }>('select key from announced_keys')).map((row) => row.key);
  }

  /** Forgets those that begin so, and says which they were. @param prefix without `%` and `_` */
  async take(prefix: string): Promise<string[]> {
    const rows = await this.#sql.all<{ key: string }>('select key from announced_keys where key like ?', `${prefix}%`);
    if (rows.length > 0) await this.#sql.run('delete from announced_keys where key like ?', `${prefix}%`);
    return rows.map(({ key }) => key);
  }

  async removeOf(owner: string): Promise<void> {
    await this.#sql.run('delete from announced_keys where owner = ?', owner);
  }

  /** Removes what is from before then, but not of an owner that runs a job: its checkpoint may take days. */
  async purge(before: number, now: number): Promise<void> {
    await this.#sql.run(
      `delete from announced_keys where announced_at < ? and not exists (
         select 1 from jobs where status = 'running' and lease_owner = announced_keys.owner and lease_expires_at > ?)`,
      before,
      now,
    );
  }
}
