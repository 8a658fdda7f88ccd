import type { Migration } from './migration.ts';

/** Live parts of a service, each under a lease. A new member notifies the others, if the database can. */
export const MEMBERS: Migration = {
  version: 19,
  name: 'members',
  sql: (words) => `
create table members (
  id text not null,
  role text not null,
  url text,
  version text not null,
  facts text not null,
  started_at ${words.integer} not null,
  lease_expires_at ${words.integer} not null,
  primary key (id, role)
)${words.sortedTableEnd};
${words.notifyOnInsert({ trigger: 'members_are_told', table: 'members' })}
`,
};
