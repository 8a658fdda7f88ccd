import type { Migration } from './migration.ts';

/**
 * Facts of each trajectory's content, next to it, so that lists need no blob. -1: unknown. `contents` of a set:
 * 0 not yet computed or by an older rule, 1 current, 2 removed with the data, 3 to be removed.
 */
export const TRAJECTORY_CONTENTS: Migration = {
  version: 35,
  name: 'trajectory contents',
  sql: ({ integer }) => `
alter table trajectory_sets add column contents ${integer} not null default 0;
create index trajectory_sets_by_contents on trajectory_sets (contents, position) where contents in (0, 3);
alter table trajectories add column question text;
alter table trajectories add column reply text;
alter table trajectories add column num_turns ${integer} not null default -1;
alter table trajectories add column num_tokens ${integer} not null default -1;
alter table trajectories add column finish_reason text;
alter table trajectories add column metrics text;`,
};
