import type { Migration } from './migration.ts';

/** Who removes a row asks every table that may refer to it: an index answers, in place of a look at the whole table for each row that goes. */
export const INDEXED_REFERENCES: Migration = {
  version: 24,
  name: 'indexed-references',
  sql: () => `
create index trajectory_sets_by_job on trajectory_sets (job_id);
create index tracked_runs_by_model on tracked_runs (model_id);
`,
};
