import type { Migration } from '../migration.ts';

/**
 * Jobs can be paused, models can start from another model's checkpoint, and a job's reference weights stay
 * while it lives.
 *
 * `init_artifact_key` is permanent: it shows whose optimizer state is in a checkpoint that shares that
 * directory.
 */
export const JOB_CONTROL: Migration = {
  version: 2,
  name: 'job control',
  sql: (words) => `
alter table jobs add column paused_at ${words.integer};
alter table jobs add column reference_artifact_key text;
alter table models add column init_source text;
alter table models add column init_artifact_key text;
`,
};
