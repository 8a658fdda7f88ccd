import type { Member, MemberFacts, MemberRole, NewMember } from './members.ts';
import { holds, leaseBounds } from '../../contract/lease.ts';
import type { Statements } from '../../contract/sql.ts';

/** Live parts of a service, one row per role of a process. */
export class MemberTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** Inserts a member, replacing the row of an earlier run. */
  async put(id: string, { role, url, version, ...facts }: NewMember, leaseMs: number, now: number): Promise<void> {
    await this.#sql.run(
      `insert into members (id, role, url, version, facts, started_at, lease_expires_at) values (?, ?, ?, ?, ?, ?, ?)
       on conflict (id, role) do update set url = excluded.url, version = excluded.version, facts = excluded.facts,
         started_at = excluded.started_at, lease_expires_at = excluded.lease_expires_at`,
      id,
      role,
      url,
      version,
      JSON.stringify(facts),
      now,
      now + leaseMs,
    );
  }

  /** @returns true if there is such a row */
  async renew(id: string, role: MemberRole, facts: MemberFacts, expiresAt: number): Promise<boolean> {
    const statement = 'update members set facts = ?, lease_expires_at = ? where id = ? and role = ?';
    return (await this.#sql.run(statement, JSON.stringify(facts), expiresAt, id, role)) > 0;
  }

  /** Members by role, then by id. */
  async list(now: number): Promise<Member[]> {
    const rows = await this.#sql.all<MemberRow>(
      `select * from members where ${holds('lease_expires_at')} order by role, id`,
      ...leaseBounds(now),
    );
    return rows.map(toMember);
  }

  async remove(id: string, role: MemberRole): Promise<void> {
    await this.#sql.run('delete from members where id = ? and role = ?', id, role);
  }

  async purge(now: number): Promise<void> {
    await this.#sql.run(`delete from members where not ${holds('lease_expires_at')}`, ...leaseBounds(now));
  }
}

type MemberRow = {
  id: string;
  role: MemberRole;
  url: string | null;
  version: string;
  facts: string;
  started_at: number;
  lease_expires_at: number;
};

function toMember(row: MemberRow): Member {
  // Older releases, which lack this fact, share the database during an update.
  const facts: MemberFacts = { machineTrouble: null, ...JSON.parse(row.facts) };
  return {
    id: row.id,
    role: row.role,
    url: row.url,
    version: row.version,
    ...facts,
    startedAt: row.started_at,
    leaseExpiresAt: row.lease_expires_at,
  };
}
