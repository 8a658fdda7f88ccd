/**
 * The first schema.
 *
 * Models, checkpoints and jobs carry `deleted_at` tombstones or stay: a page cursor is the position of its row, so it goes on
 * working after the row was deleted, and clients still read the last event of a deleted model's job.
 */
export const INITIAL = {
  version: 1,
  name: 'initial',
  sql: `
create table entities (
  id text primary key,
  name text not null unique,
  created_at integer not null
) strict;

create table api_keys (
  position integer primary key autoincrement,
  id text not null unique,
  entity_id text not null references entities (id),
  name text not null,
  secret_sha256 blob not null unique,
  scopes text not null,
  created_at integer not null,
  revoked_at integer
) strict;

create table models (
  position integer primary key autoincrement,
  id text not null unique,
  entity_id text not null references entities (id),
  project text not null,
  name text not null,
  base_model text not null,
  lora text not null,
  run_id text,
  next_step integer not null check (next_step >= 1),
  created_at integer not null,
  deleted_at integer
) strict;
create unique index models_by_name on models (entity_id, name, project) where deleted_at is null;

create table jobs (
  position integer primary key autoincrement,
  id text not null unique,
  model_id text not null references models (id),
  kind text not null check (kind in ('rl', 'sft')),
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  config text not null,
  groups_key text not null,
  key_id text,
  lease_owner text,
  lease_expires_at integer,
  fencing_token integer not null default 0,
  num_attempts integer not null default 0,
  start_step integer,
  start_artifact_key text,
  start_digest text,
  error_message text,
  created_at integer not null,
  started_at integer,
  finished_at integer,
  check ((status = 'running') = (lease_owner is not null)),
  check ((status = 'running') = (lease_expires_at is not null)),
  check ((status in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null))
) strict;
create index live_jobs on jobs (position) where status in ('queued', 'running');
create index jobs_by_model on jobs (model_id, position);
-- Jobs of one model run one after the other, whatever the code above thinks.
create unique index one_running_job on jobs (model_id) where status = 'running';

create table checkpoints (
  id text primary key,
  model_id text not null references models (id),
  step integer not null check (step >= 0),
  job_id text unique references jobs (id),
  artifact_key text,
  digest text,
  metrics text not null,
  created_at integer not null,
  deleted_at integer,
  -- Tombstones included: a step number is never used twice.
  unique (model_id, step),
  check ((artifact_key is null) = (digest is null))
) strict;
create index checkpoints_by_artifact on checkpoints (artifact_key) where artifact_key is not null;

create table job_events (
  id text primary key,
  job_id text not null references jobs (id),
  seq integer not null,
  type text not null,
  data text not null,
  dedupe_key text,
  created_at integer not null,
  unique (job_id, seq)
) strict;
create unique index job_events_once on job_events (job_id, dedupe_key) where dedupe_key is not null;
create unique index one_terminal_event on job_events (job_id) where type in ('training_ended', 'training_failed');
create trigger nothing_after_the_terminal_event before insert on job_events
when exists (select 1 from job_events where job_id = new.job_id and type in ('training_ended', 'training_failed'))
begin
  select raise(abort, 'the job has its terminal event already');
end;

create table trajectory_logs (
  position integer primary key autoincrement,
  id text not null unique,
  model_id text not null references models (id),
  checkpoint_id text references checkpoints (id),
  step integer,
  split text not null,
  blob_key text not null,
  num_groups integer not null,
  num_trajectories integer not null,
  num_exceptions integer not null,
  metrics text not null,
  created_at integer not null
) strict;
create index trajectory_logs_by_model on trajectory_logs (model_id, position);
create index trajectory_logs_by_checkpoint on trajectory_logs (checkpoint_id, split, position);

-- No foreign keys here and in usage: a removed key must not stop either.
create table idempotency_records (
  key_id text not null,
  key text not null,
  request_hash text not null,
  status integer,
  body text,
  created_at integer not null,
  expires_at integer not null,
  primary key (key_id, key),
  check ((status is null) = (body is null))
) strict;
create index idempotency_records_by_expiry on idempotency_records (expires_at);

create table usage (
  id integer primary key,
  recorded_at integer not null,
  key_id text not null,
  entity_id text not null,
  project text,
  model text not null,
  kind text not null,
  num_requests integer not null,
  prompt_tokens integer not null,
  completion_tokens integer not null
) strict;
create index usage_by_entity on usage (entity_id, recorded_at);
`,
} as const;
