import type { Migration } from './migration.ts';

/**
 * Records every blob that the database announced or named until the blob is gone, and the time since which no
 * row names it. `trusted_clock` has the last clock reading used to remove old data.
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
