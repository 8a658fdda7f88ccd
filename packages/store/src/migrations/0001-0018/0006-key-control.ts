import type { Migration } from '../migration.ts';

/**
 * Keys that expire, and the start of a secret to recognise it. Marks the service's own key: the first admin
 * key, generated or configured, so far known only by its name.
 */
export const KEY_CONTROL: Migration = {
  version: 6,
  name: 'key-control',
  sql: (words) => `
alter table api_keys add column expires_at ${words.integer};
alter table api_keys add column hint text;
alter table api_keys add column is_service_key ${words.integer} not null default 0 check (is_service_key in (0, 1));
update api_keys set is_service_key = 1 where name = 'admin';
`,
};
