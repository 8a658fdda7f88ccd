import type { Migration } from '../migration.ts';

/**
 * Every model has a run: its measurements during training, one series per metric, one point per gradient step
 * or log. Positions of a series count from 0 without gaps. `feed` has the events of all jobs and models in
 * one order; rows of job events refer to theirs instead of repeating it.
 */
export const RUNS: Migration = {
  version: 13,
  name: 'runs',
  sql: (words) => `
alter table models add column num_gradient_steps ${words.integer} not null default 0;
update models set run_id = id where run_id is null;

create table metric_series (
  id ${words.rowId},
  model_id text not null references models (id),
  name text not null,
  num_points ${words.integer} not null,
  unique (model_id, name)
)${words.tableEnd};

create table metric_points (
  series_id ${words.integer} not null references metric_series (id),
  position ${words.integer} not null,
  step ${words.integer} not null,
  gradient_step ${words.integer},
  value ${words.double} not null,
  recorded_at ${words.integer} not null,
  primary key (series_id, position)
)${words.sortedTableEnd};

create table feed (
  position ${words.position},
  entity_id text not null references entities (id),
  type text not null,
  model_id text,
  job_id text,
  event_id text,
  data text,
  created_at ${words.integer} not null,
  check ((event_id is null) = (data is not null))
)${words.tableEnd};
create index feed_by_entity on feed (entity_id, position);
create index feed_by_age on feed (created_at);
create index jobs_by_entity on jobs (entity_id, position);
`,
};
