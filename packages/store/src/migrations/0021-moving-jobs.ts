import type { Migration } from './migration.ts';

/** Jobs say which base model they need, and where the newest snapshot of what they have done is, so that one moves to whatever machine has both. */
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
