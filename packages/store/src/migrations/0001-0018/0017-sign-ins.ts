import type { Migration } from '../migration.ts';

/** Signed-in browsers, and links that sign one in. Stores only the SHA-256 of a secret. */
export const SIGN_INS: Migration = {
  version: 17,
  name: 'sign-ins',
  sql: (words) => `
create table sign_ins (
  position ${words.position},
  kind text not null check (kind in ('session', 'link')),
  secret_sha256 ${words.blob} not null unique,
  key_id text not null references api_keys (id),
  expires_at ${words.integer} not null
)${words.tableEnd};
create index sign_ins_by_key on sign_ins (key_id, kind, position);
create index sign_ins_by_expiry on sign_ins (expires_at);
`,
};
