import type { Migration } from '../migration.ts';

/** Trackers outside: how far in the feed each was told, and what it calls the runs that it has. */
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
