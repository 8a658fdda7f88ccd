import type { Migration } from '../migration.ts';

/** Renames a column, because a job's data are not always groups. */
export const DATA_KEY: Migration = {
  version: 11,
  name: 'data-key',
  sql: () => `
alter table jobs rename column groups_key to data_key;
`,
};
