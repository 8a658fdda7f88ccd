import type { Migration } from '../migration.ts';

/**
 * First schema.
 *
 * Models, checkpoints and jobs carry `deleted_at` tombstones or stay: a page cursor is the position of its
 * row and must work after the row is deleted, and clients still read the last event of a deleted model's job.
 */
export const INITIAL: Migration = {
  version: 1,
  name: 'initial',
  sql: (words) => `
create table entities (
  id text primary key,
  name text not null unique,
  created_at ${words.integer} not null
)${words.tableEnd};

create table api_keys (
  position ${words.position},
  id text not null unique,
  entity_id text not null references entities (id),
  name text not null,
  secret_sha256 ${words.blob} not null unique,
  scopes text not null,
  created_at ${words.integer} not null,
  revoked_at ${words.integer}
)${words.tableEnd};

create table models (
  position ${words.position},
  id text not null unique,
  entity_id text not null references entities (id),
  project text not null,
  name text not null,
  base_model text not null,
  lora text not null,
  run_id text,
  next_step ${words.integer} not null check (next_step >= 1),
  created_at ${words.integer} not null,
  deleted_at ${words.integer}
)${words.tableEnd};
create unique index models_by_name on models (entity_id, name, project) where deleted_at is null;

create table jobs (
  position ${words.position},
  id text not null unique,
  model_id text not null references models (id),
  kind text not null check (kind in ('rl', 'sft')),
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  config text not null,
  groups_key text not null,
  key_id text,
  lease_owner text,
  lease_expires_at ${words.integer},
  fencing_token ${words.integer} not null default 0,
  num_attempts ${words.integer} not null default 0,
  start_step ${words.integer},
  start_artifact_key text,
  start_digest text,
  error_message text,
  created_at ${words.integer} not null,
  started_at ${words.integer},
  finished_at ${words.integer},
  check ((status = 'running') = (lease_owner is not null)),
  check ((status = 'running') = (lease_expires_at is not null)),
  check ((status in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null))
)${words.tableEnd};
create index live_jobs on jobs (position) where status in ('queued', 'running');
create index jobs_by_model on jobs (model_id, position);
-- Jobs of one model run one after the other, whatever the code above thinks.
create unique index one_running_job on jobs (model_id) where status = 'running';

create table checkpoints (
  id text primary key,
  model_id text not null references models (id),
  step ${words.integer} not null check (step >= 0),
  job_id text unique references jobs (id),
  artifact_key text,
  digest text,
  metrics text not null,
  created_at ${words.integer} not null,
  deleted_at ${words.integer},
  -- Tombstones included: a step number is never used twice.
  unique (model_id, step),
  check ((artifact_key is null) = (digest is null))
)${words.tableEnd};
create index checkpoints_by_artifact on checkpoints (artifact_key) where artifact_key is not null;

create table job_events (
  id text primary key,
  job_id text not null references jobs (id),
  seq ${words.integer} not null,
  type text not null,
  data text not null,
  dedupe_key text,
  created_at ${words.integer} not null,
  unique (job_id, seq)
)${words.tableEnd};
create unique index job_events_once on job_events (job_id, dedupe_key) where dedupe_key is not null;
create unique index one_terminal_event on job_events (job_id) where type in ('training_ended', 'training_failed');
${words.refuseInsert({
  trigger: 'nothing_after_the_terminal_event',
  table: 'job_events',
  when: "exists (select 1 from job_events where job_id = new.job_id and type in ('training_ended', 'training_failed'))",
  message: 'the job has its terminal event already',
})}
create table trajectory_logs (
  position ${words.position},
  id text not null unique,
  model_id text not null references models (id),
  checkpoint_id text references checkpoints (id),
  step ${words.integer},
  split text not null,
  blob_key text not null,
  num_groups ${words.integer} not null,
  num_trajectories ${words.integer} not null,
  num_exceptions ${words.integer} not null,
  metrics text not null,
  created_at ${words.integer} not null
)${words.tableEnd};
create index trajectory_logs_by_model on trajectory_logs (model_id, position);
create index trajectory_logs_by_checkpoint on trajectory_logs (checkpoint_id, split, position);

-- No foreign keys here and in usage: a removed key must not stop either.
create table idempotency_records (
  key_id text not null,
  key text not null,
  request_hash text not null,
  status ${words.integer},
  body text,
  created_at ${words.integer} not null,
  expires_at ${words.integer} not null,
  primary key (key_id, key),
  check ((status is null) = (body is null))
)${words.tableEnd};
create index idempotency_records_by_expiry on idempotency_records (expires_at);

create table usage (
  id ${words.rowId},
  recorded_at ${words.integer} not null,
  key_id text not null,
  entity_id text not null,
  project text,
  model text not null,
  kind text not null,
  num_requests ${words.integer} not null,
  prompt_tokens ${words.integer} not null,
  completion_tokens ${words.integer} not null
)${words.tableEnd};
create index usage_by_entity on usage (entity_id, recorded_at);
`,
};
