import type { Migration } from './migration.ts';

/** Last use of an API key, within a minute. Null: never, or not since before this version. */
export const KEY_LAST_USED: Migration = {
  version: 32,
  name: 'key last used',
  sql: ({ integer }) => `alter table api_keys add column last_used_at ${integer};`,
};
