import type { Migration } from './migration.ts';

/**
 * Names of usage rows, by which a process finds the result of a write whose answer was lost. Hours and older
 * rows have none.
 */
export const USAGE_NAMES: Migration = {
  version: 22,
  name: 'usage-names',
  sql: () => `
alter table usage add column name text;
create unique index usage_by_name on usage (name) where name is not null;
`,
};
