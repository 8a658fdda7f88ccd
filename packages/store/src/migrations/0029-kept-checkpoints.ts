import type { Migration } from './migration.ts';

/**
 * Facts that decide which checkpoints are kept: a user's mark, the end of a version's use, and sizes of
 * files. Checkpoints from before this release are marked, so that an upgrade removes nothing.
 */
export const KEPT_CHECKPOINTS: Migration = {
  version: 29,
  name: 'kept-checkpoints',
  sql: (words) => `
alter table checkpoints add column kept_at ${words.integer};
alter table checkpoints add column used_until ${words.integer};
alter table checkpoints add column size_bytes ${words.integer};
alter table checkpoints add column optimizer_bytes ${words.integer};
alter table checkpoints add column optimizer_dropped_at ${words.integer};
update checkpoints set kept_at = created_at where deleted_at is null;
`,
};
