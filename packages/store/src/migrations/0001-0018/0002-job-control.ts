import type { Migration } from '../migration.ts';

/**
 * Jobs can be paused, models can begin at another model's checkpoint, and a job's reference weights stay while it lives.
 *
 * `init_artifact_key` is kept for good: it tells whose optimizer state lies in a checkpoint that shares that directory.
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
