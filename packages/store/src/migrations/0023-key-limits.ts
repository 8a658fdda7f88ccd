import type { Migration } from './migration.ts';

/** Limits of keys, shared by all processes: the use so far, and the requests in flight per process. */
export const KEY_LIMITS: Migration = {
  version: 23,
  name: 'key-limits',
  sql: (words) => `
alter table api_keys add column requests_per_minute ${words.integer};
alter table api_keys add column tokens_per_minute ${words.integer};
alter table api_keys add column max_requests_in_flight ${words.integer};
create table key_budgets (
  key_id text not null primary key references api_keys (id),
  used_requests ${words.double} not null,
  used_tokens ${words.double} not null,
  used_at ${words.integer} not null
)${words.sortedTableEnd};
create table requests_in_flight (
  key_id text not null references api_keys (id),
  process_id text not null,
  num_requests ${words.integer} not null,
  lease_expires_at ${words.integer} not null,
  primary key (key_id, process_id)
)${words.sortedTableEnd};
`,
};
