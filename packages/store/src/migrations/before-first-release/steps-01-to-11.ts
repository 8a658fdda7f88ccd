import type { Migration } from '../migration.ts';

/**
 * First schema.
 *
 * Models, checkpoints and jobs carry `deleted_at` tombstones or stay: a page cursor is the position of its
 * row and must work after the row is deleted, and clients still read the last event of a deleted model's job.
 */
const INITIAL: Migration = {
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

/**
 * Jobs can be paused, models can start from another model's checkpoint, and a job's reference weights stay
 * while it lives.
 *
 * `init_artifact_key` is permanent: it shows whose optimizer state is in a checkpoint that shares that
 * directory.
 */
const JOB_CONTROL: Migration = {
  version: 2,
  name: 'job control',
  sql: (words) => `
alter table jobs add column paused_at ${words.integer};
alter table jobs add column reference_artifact_key text;
alter table models add column init_source text;
alter table models add column init_artifact_key text;
`,
};

/**
 * Uploaded files by name and version. A deleted version stays as a tombstone, so that its number is never
 * reused.
 */
const ARTIFACTS: Migration = {
  version: 3,
  name: 'artifacts',
  sql: (words) => `
create table artifacts (
  position ${words.position},
  id text not null unique,
  entity_id text not null references entities (id),
  project text not null,
  name text not null,
  version ${words.integer} not null check (version >= 0),
  file_name text not null,
  blob_key text not null unique,
  digest text not null,
  size_bytes ${words.integer} not null,
  num_lines ${words.integer} not null,
  created_at ${words.integer} not null,
  deleted_at ${words.integer},
  unique (entity_id, project, name, version)
)${words.tableEnd};
`,
};

/**
 * Checkpoints exported as files, and imported adapters.
 *
 * Deleted rows stay as tombstones, so that page cursors continue to work; those of deleted models are removed
 * with them.
 */
const EXPORTS: Migration = {
  version: 4,
  name: 'exports',
  sql: (words) => `
create table exports (
  position ${words.position},
  id text not null unique,
  model_id text not null references models (id),
  step ${words.integer} not null,
  format text not null,
  dtype text not null,
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed')),
  source_artifact_key text,
  source_digest text,
  num_attempts ${words.integer} not null default 0,
  artifact_key text,
  files text not null,
  parity text,
  error_message text,
  created_at ${words.integer} not null,
  started_at ${words.integer},
  finished_at ${words.integer},
  deleted_at ${words.integer},
  check ((status in ('succeeded', 'failed')) = (finished_at is not null)),
  check ((status = 'succeeded' and deleted_at is null) = (artifact_key is not null))
)${words.tableEnd};
create index exports_by_model on exports (model_id, position);
create index live_exports on exports (position) where status in ('queued', 'running') and deleted_at is null;

create table adapters (
  position ${words.position},
  id text not null unique,
  entity_id text not null references entities (id),
  base_model text not null,
  config_key text,
  weights_key text,
  lora text,
  artifact_key text,
  digest text,
  created_at ${words.integer} not null,
  committed_at ${words.integer},
  deleted_at ${words.integer},
  check ((committed_at is null or deleted_at is not null) or (lora is not null and artifact_key is not null and digest is not null)),
  check ((committed_at is null and deleted_at is null) = (config_key is not null and weights_key is not null))
)${words.tableEnd};
create index adapters_by_entity on adapters (entity_id, position);
`,
};

/**
 * Sampled choices by id, kept for a day or so. Token ids and log-probabilities are arrays of 32-bit numbers
 * in the byte order of the machine; the choices of an answer share its prompt.
 */
const CHOICE_RECORDS: Migration = {
  version: 5,
  name: 'choice-records',
  sql: (words) => `
create table answer_records (
  position ${words.position},
  id text not null unique,
  entity_id text not null references entities (id),
  model_id text not null references models (id),
  step ${words.integer} not null,
  digest text,
  created_at ${words.integer} not null,
  size_bytes ${words.integer} not null,
  prompt_token_ids ${words.blob} not null
)${words.tableEnd};
create index answer_records_by_model on answer_records (model_id);
create index answer_records_by_age on answer_records (created_at, size_bytes);

create table choice_records (
  id ${words.rowId},
  answer_position ${words.integer} not null references answer_records (position) on delete cascade,
  choice_index ${words.integer} not null,
  token_ids ${words.blob} not null,
  logprobs ${words.blob} not null check (length(logprobs) = length(token_ids)),
  unique (answer_position, choice_index)
)${words.tableEnd};
`,
};

/**
 * Keys that expire, and the start of a secret to recognise it. Marks the service's own key: the first admin
 * key, generated or configured, so far known only by its name.
 */
const KEY_CONTROL: Migration = {
  version: 6,
  name: 'key-control',
  sql: (words) => `
alter table api_keys add column expires_at ${words.integer};
alter table api_keys add column hint text;
alter table api_keys add column is_service_key ${words.integer} not null default 0 check (is_service_key in (0, 1));
update api_keys set is_service_key = 1 where name = 'admin';
`,
};

/**
 * Sampling of a choice: JSON of the settings that changed the distribution ('null' = none; null = unknown),
 * and the data to compute it again: log-probabilities, stored like those of the raw model, and the allowed
 * tokens.
 */
const CHOICE_SAMPLING: Migration = {
  version: 7,
  name: 'choice-sampling',
  sql: (words) => `
alter table choice_records add column sampling text;
alter table choice_records add column drawn_logprobs ${words.blob};
alter table choice_records add column kept_tokens ${words.blob};
`,
};

/**
 * Bounds the data of ended jobs: training data and logged trajectories expire (their rows stay), and usage
 * becomes one row per hour, key, project, model and kind. `is_hour` rows carry the start of their hour.
 */
const RETENTION: Migration = {
  version: 8,
  name: 'retention',
  sql: (words) => `
alter table jobs add column data_removed_at ${words.integer} check (data_removed_at is null or finished_at is not null);
alter table trajectory_logs add column data_removed_at ${words.integer};
create index jobs_with_old_data on jobs (finished_at) where data_removed_at is null and finished_at is not null;
create index logs_with_old_data on trajectory_logs (created_at) where data_removed_at is null;
create index jobs_by_data on jobs (groups_key) where data_removed_at is null;
create index logs_by_data on trajectory_logs (blob_key) where data_removed_at is null;

alter table usage add column is_hour ${words.integer} not null default 0 check (is_hour in (0, 1));
create index usage_to_merge on usage (recorded_at, id) where is_hour = 0;
create unique index usage_by_hour on usage (recorded_at, key_id, entity_id, ${words.ifNull}(project, ''), ${words.isNull('project')}, model, kind) where is_hour = 1;
`,
};

/** Distinguishes the hours of usage with words that other databases have too. */
const SHARING: Migration = {
  version: 9,
  name: 'sharing',
  sql: () => `
drop index usage_by_hour;
create unique index usage_by_hour on usage (recorded_at, key_id, entity_id, (coalesce(project, '')), (project is null), model, kind) where is_hour = 1;
`,
};

/**
 * Several processes on one database: rows carry the name of the process that holds them, so that no other
 * treats them as remains of a crash. Exports have leases like jobs. A key is announced before its file is
 * written, followed by its row.
 */
const OWNERS: Migration = {
  version: 10,
  name: 'owners',
  sql: (words) => `
alter table idempotency_records add column owner text;
alter table exports add column lease_owner text;
alter table exports add column lease_expires_at ${words.integer};

create table announced_keys (
  key text primary key,
  owner text not null,
  announced_at ${words.integer} not null
)${words.tableEnd};
create index announced_keys_by_owner on announced_keys (owner);
create index announced_keys_by_age on announced_keys (announced_at);
`,
};

/** Renames a column, because a job's data are not always groups. */
const DATA_KEY: Migration = {
  version: 11,
  name: 'data-key',
  sql: () => `
alter table jobs rename column groups_key to data_key;
`,
};

export const STEPS_01_TO_11: readonly Migration[] = [
  INITIAL,
  JOB_CONTROL,
  ARTIFACTS,
  EXPORTS,
  CHOICE_RECORDS,
  KEY_CONTROL,
  CHOICE_SAMPLING,
  RETENTION,
  SHARING,
  OWNERS,
  DATA_KEY,
];
