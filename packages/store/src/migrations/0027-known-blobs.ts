import type { Migration } from './migration.ts';

/**
 * The database remembers every blob that it announced or named, until the blob is gone, and since when no row names it. `trusted_clock` has the last reading of
 * the clock that the removal of old data went by.
 */
export const KNOWN_BLOBS: Migration = {
  version: 27,
  name: 'known-blobs',
  sql: (words) => `
alter table announced_keys add column orphaned_at ${words.integer};
create table trusted_clock (
  only_row ${words.integer} primary key check (only_row = 1),
  trusted_at ${words.integer} not null
)${words.tableEnd};
`,
};
