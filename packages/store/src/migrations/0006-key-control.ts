/**
 * Keys that expire, and the beginning of a secret to know it by. One key is the service's own: the first admin key, made up or configured.
 * Until now it was told by its name alone.
 */
export const KEY_CONTROL = {
  version: 6,
  name: 'key-control',
  sql: `
alter table api_keys add column expires_at integer;
alter table api_keys add column hint text;
alter table api_keys add column is_service_key integer not null default 0 check (is_service_key in (0, 1));
update api_keys set is_service_key = 1 where name = 'admin';
`,
} as const;
