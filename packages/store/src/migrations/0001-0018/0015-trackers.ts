import type { Migration } from '../migration.ts';

/** External trackers: the feed position each has reached, and its names of the runs. */
export const TRACKERS: Migration = {
  version: 15,
  name: 'trackers',
  sql: (words) => `
create table tracker_positions (
  tracker text primary key,
  position ${words.integer} not null
)${words.tableEnd};

create table tracked_runs (
  tracker text not null,
  model_id text not null references models (id),
  run text not null,
  url text,
  num_gradient_steps ${words.integer} not null,
  primary key (tracker, model_id)
)${words.tableEnd};
`,
};
