import type { Migration } from './migration.ts';

/** Base model and newest snapshot of a job, so that it can move to any machine with both. */
export const MOVING_JOBS: Migration = {
  version: 21,
  name: 'moving-jobs',
  sql: (words) => `
alter table jobs add column base_model text not null default '';
update jobs set base_model = coalesce(
  (select base_model from models where models.id = jobs.model_id),
  (select base_model from adapters where adapters.id = jobs.turn),
  '');
alter table jobs add column snapshot_key text;
alter table jobs add column snapshot_steps ${words.integer};
`,
};
