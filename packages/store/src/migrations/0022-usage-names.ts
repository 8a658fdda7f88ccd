import type { Migration } from './migration.ts';

/** Rows of usage have names, by which a process finds what a write made whose answer was lost. Hours, and rows from before, have none. */
export const USAGE_NAMES: Migration = {
  version: 22,
  name: 'usage-names',
  sql: () => `
alter table usage add column name text;
create unique index usage_by_name on usage (name) where name is not null;
`,
};
