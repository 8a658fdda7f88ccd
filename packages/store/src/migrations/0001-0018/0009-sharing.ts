import type { Migration } from '../migration.ts';

/** Distinguishes the hours of usage with words that other databases have too. */
export const SHARING: Migration = {
  version: 9,
  name: 'sharing',
  sql: () => `
drop index usage_by_hour;
create unique index usage_by_hour on usage (recorded_at, key_id, entity_id, (coalesce(project, '')), (project is null), model, kind) where is_hour = 1;
`,
};
