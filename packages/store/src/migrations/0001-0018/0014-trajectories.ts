import type { Migration } from '../migration.ts';

/**
 * Lists trajectories: a set per job or log that has some, and a row per trajectory; their content stays in
 * the blob of the job or log. `token_traces` has the compressed trace of their tokens in a gradient step.
 */
export const TRAJECTORIES: Migration = {
  version: 14,
  name: 'trajectories',
  sql: (words) => `
create table trajectory_sets (
  position ${words.position},
  id text not null unique,
  model_id text not null references models (id),
  job_id text references jobs (id),
  split text not null,
  step ${words.integer} not null
)${words.tableEnd};
create index trajectory_sets_by_model on trajectory_sets (model_id, step);

create table trajectories (
  position ${words.position},
  set_position ${words.integer} not null references trajectory_sets (position),
  model_position ${words.integer} not null,
  group_index ${words.integer} not null,
  trajectory_index ${words.integer} not null,
  reward ${words.double} not null,
  outcome text,
  advantage ${words.double},
  unique (set_position, group_index, trajectory_index)
)${words.tableEnd};
create index trajectories_by_model on trajectories (model_position, position);
create index trajectories_by_reward on trajectories (model_position, reward, position);

create table token_traces (
  position ${words.position},
  trajectory_position ${words.integer} not null references trajectories (position),
  model_position ${words.integer} not null,
  gradient_step ${words.integer} not null,
  size_bytes ${words.integer} not null,
  created_at ${words.integer} not null,
  trace ${words.blob} not null
)${words.tableEnd};
create index token_traces_by_trajectory on token_traces (trajectory_position, position);
create index token_traces_by_model on token_traces (model_position, position, size_bytes);
create index token_traces_by_age on token_traces (created_at);
`,
};
