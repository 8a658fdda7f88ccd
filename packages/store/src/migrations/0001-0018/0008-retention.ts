import type { Migration } from '../migration.ts';

/**
 * Bounds the data of ended jobs: training data and logged trajectories expire (their rows stay), and usage
 * becomes one row per hour, key, project, model and kind. `is_hour` rows carry the start of their hour.
 */
export const RETENTION: Migration = {
  version: 8,
  name: 'retention',
  sql: (words) => `
alter table jobs add column data_removed_at ${words.integer} check (data_removed_at is null or finished_at is not null);
alter table trajectory_logs add column data_removed_at ${words.integer};
create index jobs_with_old_data on jobs (finished_at) where data_removed_at is null and finished_at is not null;
create index logs_with_old_data on trajectory_logs (created_at) where data_removed_at is null;
create index jobs_by_data on jobs (groups_key) where data_removed_at is null;
create index logs_by_data on trajectory_logs (blob_key) where data_removed_at is null;

alter table usage add column is_hour ${words.integer} not null default 0 check (is_hour in (0, 1));
create index usage_to_merge on usage (recorded_at, id) where is_hour = 0;
create unique index usage_by_hour on usage (recorded_at, key_id, entity_id, ${words.ifNull}(project, ''), ${words.isNull('project')}, model, kind) where is_hour = 1;
`,
};
