import type { Migration } from '../migration.ts';

/**
 * Several processes on one database: rows carry the name of the process that holds them, so that no other
 * treats them as remains of a crash. Exports have leases like jobs. A key is announced before its file is
 * written, followed by its row.
 */
export const OWNERS: Migration = {
  version: 10,
  name: 'owners',
  sql: (words) => `
alter table idempotency_records add column owner text;
alter table exports add column lease_owner text;
alter table exports add column lease_expires_at ${words.integer};

create table announced_keys (
  key text primary key,
  owner text not null,
  announced_at ${words.integer} not null
)${words.tableEnd};
create index announced_keys_by_owner on announced_keys (owner);
create index announced_keys_by_age on announced_keys (announced_at);
`,
};
