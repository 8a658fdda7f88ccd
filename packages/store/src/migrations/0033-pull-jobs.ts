import type { SchemaWords } from '../contract/schema-words.ts';
import type { Migration } from './migration.ts';

const COLUMNS = `position, id, entity_id, model_id, turn, kind, status, base_model, config, data_key, key_id, request_id, trace_parent, usage_project,
  lease_owner, lease_expires_at, fencing_token, num_attempts, start_step, start_artifact_key, start_digest, reference_artifact_key, snapshot_key,
  snapshot_steps, error_message, paused_at, created_at, started_at, finished_at, data_removed_at`;
const KINDS = "kind in ('rl', 'sft', 'export', 'import', 'pull')";
/** Training reads a blob; imports and pulls belong to no model. */
const OF_A_KIND =
  "(kind in ('rl', 'sft')) = (data_key is not null) and (kind in ('import', 'pull')) = (model_id is null)";

const rebuilt = ({ position, integer, tableEnd }: SchemaWords) => `
create table next_jobs (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  model_id text references models (id),
  turn text not null,
  kind text not null check (${KINDS}),
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  base_model text not null default '',
  config text not null,
  data_key text,
  key_id text,
  request_id text,
  trace_parent text,
  usage_project text,
  lease_owner text,
  lease_expires_at ${integer},
  fencing_token ${integer} not null default 0,
  num_attempts ${integer} not null default 0,
  start_step ${integer},
  start_artifact_key text,
  start_digest text,
  reference_artifact_key text,
  snapshot_key text,
  snapshot_steps ${integer},
  error_message text,
  paused_at ${integer},
  created_at ${integer} not null,
  started_at ${integer},
  finished_at ${integer},
  data_removed_at ${integer},
  check ((status = 'running') = (lease_owner is not null)),
  check ((status = 'running') = (lease_expires_at is not null)),
  check ((status in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
  check (data_removed_at is null or finished_at is not null),
  check (${OF_A_KIND})
)${tableEnd};
insert into next_jobs (${COLUMNS}) select ${COLUMNS} from jobs;
-- Positions are never used twice, also those of removed jobs.
delete from sqlite_sequence where name = 'next_jobs';
insert into sqlite_sequence (name, seq) select 'next_jobs', seq from sqlite_sequence where name = 'jobs';
drop table jobs;
alter table next_jobs rename to jobs;
create index live_jobs on jobs (position) where status in ('queued', 'running');
create index jobs_by_model on jobs (model_id, position);
create index jobs_with_old_data on jobs (finished_at) where data_removed_at is null and finished_at is not null;
create index jobs_by_data on jobs (data_key) where data_removed_at is null;
create unique index one_running_job on jobs (turn) where status = 'running';
create index jobs_by_turn on jobs (turn, position);
create index jobs_by_entity on jobs (entity_id, position);
`;

/** The names of the two constraints depend on the release that made the table. */
const ALTERED = `
do $$
declare old_check text;
begin
  for old_check in
    select conname from pg_constraint
    where conrelid = 'jobs'::regclass and contype = 'c' and pg_get_constraintdef(oid) like '%''import''%'
  loop
    execute format('alter table jobs drop constraint %I', old_check);
  end loop;
end $$;
alter table jobs add constraint jobs_kind_check check (${KINDS});
alter table jobs add check (${OF_A_KIND});
`;

/** Jobs of the kind `pull`: each brings a base model from a hub, for all models on it. */
export const PULL_JOBS: Migration = {
  version: 33,
  name: 'pull jobs',
  sql: (words) =>
    `${words.reshape({ rebuild: rebuilt(words), alter: ALTERED })}
create index pull_jobs on jobs (base_model, position) where kind = 'pull';`,
};
