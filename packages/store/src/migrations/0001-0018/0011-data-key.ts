import type { Migration } from '../migration.ts';

/** Data of a job are not always groups. */
export const DATA_KEY: Migration = {
  version: 11,
  name: 'data-key',
  sql: () => `
alter table jobs rename column groups_key to data_key;
`,
};
