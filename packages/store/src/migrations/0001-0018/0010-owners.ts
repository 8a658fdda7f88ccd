import type { Migration } from '../migration.ts';

/**
 * Several processes on one database: what one of them holds bears its name, so that no other takes it for left over from a crash. Exports have
 * leases as jobs have. A key is announced before its file is written, whose row follows.
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
