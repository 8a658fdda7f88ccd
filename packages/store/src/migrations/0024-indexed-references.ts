import type { Migration } from './migration.ts';

/**
 * Removing a row checks every table that may refer to it: indexes replace a scan of the whole table per
 * removed row.
 */
export const INDEXED_REFERENCES: Migration = {
  version: 24,
  name: 'indexed-references',
  sql: () => `
create index trajectory_sets_by_job on trajectory_sets (job_id);
create index tracked_runs_by_model on tracked_runs (model_id);
`,
};
