import type { KnownKey } from './files.ts';
import type { Statements } from '../../contract/sql.ts';
import { DIRECTORY_REFERENCES } from '../checkpoints/checkpoint-table.ts';
import { BLOB_REFERENCES } from '../trajectories/log-table.ts';
import { partsOf } from '../rows-of.ts';

/** A row names a file moments after it is written; after this time its process is dead. */
const ANNOUNCEMENT_LIFETIME_MS = 24 * 3600 * 1000;
/** Owner of keys that no process is about to name. */
const NOBODY = '';
const KEYS_AT_A_TIME = 100;

/** Announcements that still protect a file. The checkpoint of a running job may take days. */
const IS_PROTECTED = `owner <> '${NOBODY}' and (announced_at >= ? or exists (
  select 1 from jobs where status = 'running' and lease_owner = announced_keys.owner and lease_expires_at > ?))`;

/**
 * Keys of the blobs and directories that this database has announced or named. A row stays until the file is
 * gone: only files that the database once knew may be removed as orphans.
 */
export class AnnouncedKeyTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async add(key: string, owner: string, now: number): Promise<void> {
    await this.#sql.run(
      `insert into announced_keys (key, owner, announced_at) values (?, ?, ?)
       on conflict (key) do update set owner = excluded.owner, announced_at = excluded.announced_at, orphaned_at = null`,
      key,
      owner,
      now,
    );
  }

  /** Adds keys that a row names from the start, before their files arrive. */
  async learn(keys: readonly string[], now: number): Promise<void> {
    for (const key of keys) await this.add(key, NOBODY, now);
  }

  /** Keys whose row is still to come. */
  async listProtected(now: number): Promise<string[]> {
    const rows = await this.#sql.all<{ key: string }>(
      `select key from announced_keys where ${IS_PROTECTED}`,
      now - ANNOUNCEMENT_LIFETIME_MS,
      now,
    );
    return rows.map((row) => row.key);
  }

  async listKnown(): Promise<KnownKey[]> {
    const rows = await this.#sql.all<{ key: string; orphaned_at: number | null }>(
      'select key, orphaned_at from announced_keys',
    );
    return rows.map((row) => ({ key: row.key, orphanedAt: row.orphaned_at }));
  }

  /** Adds all keys that rows name now. */
  async learnNamed(now: number): Promise<void> {
    for (const references of [DIRECTORY_REFERENCES, BLOB_REFERENCES])
      await this.#sql.run(
        `insert into announced_keys (key, owner, announced_at)
         select distinct key, '${NOBODY}', cast(? as bigint) from (${references}) named where key is not null
         on conflict (key) do nothing`,
        now,
      );
  }

  /**
   * Records these keys as orphans from now on; those recorded before keep their time. Every other key is
   * named again, or protected.
   */
  async setOrphans(keys: readonly string[], now: number): Promise<void> {
    const noted = await this.#sql.all<{ key: string }>('select key from announced_keys where orphaned_at is not null');
    const orphans = new Set(keys);
    for (const { key } of noted)
      if (!orphans.delete(key)) await this.#sql.run('update announced_keys set orphaned_at = null where key = ?', key);
    for (const key of orphans)
      await this.#sql.run(
        `insert into announced_keys (key, owner, announced_at, orphaned_at) values (?, '${NOBODY}', ?, ?)
         on conflict (key) do update set orphaned_at = excluded.orphaned_at`,
        key,
        now,
        now,
      );
  }

  async forget(keys: readonly string[]): Promise<void> {
    for (const part of partsOf(keys, KEYS_AT_A_TIME))
      await this.#sql.run(`delete from announced_keys where key in (${part.map(() => '?').join(', ')})`, ...part);
  }

  /** Ends the protection of the keys with this prefix and returns them. @param prefix without `%` and `_` */
  async take(prefix: string): Promise<string[]> {
    const rows = await this.#sql.all<{ key: string }>(
      `update announced_keys set owner = '${NOBODY}' where key like ? and owner <> '${NOBODY}' returning key`,
      `${prefix}%`,
    );
    return rows.map(({ key }) => key);
  }

  /** Ends the protection of the keys that this process announced. */
  async releaseOf(owner: string): Promise<void> {
    await this.#sql.run(`update announced_keys set owner = '${NOBODY}' where owner = ?`, owner);
  }
}
