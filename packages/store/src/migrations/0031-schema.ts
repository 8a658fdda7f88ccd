import type { SchemaWords } from '../contract/schema-words.ts';
import type { Migration } from './migration.ts';

/**
 * The schema of the first release. Columns that end with `_at` or `_until` are milliseconds since the epoch
 * on the database's clock. `position` orders the rows of a table and is the cursor of its pages, so deleted
 * rows stay as tombstones with `deleted_at`. Names of constraints and indexes are fixed: later migrations may
 * refer to them.
 */
export const SCHEMA: Migration = {
  version: 31,
  name: 'schema',
  sql: (words) =>
    [keys, models, jobs, runs, trajectories, files, records, answers, usage, services]
      .map((subject) => subject(words))
      .join(''),
};

const keys = ({ position, integer, double, blob, tableEnd, sortedTableEnd }: SchemaWords) => `
-- Tenants.
create table entities (
  id text primary key,
  name text not null unique,
  created_at ${integer} not null
)${tableEnd};

-- Of a secret only its SHA-256 and its start (\`hint\`) are stored. The service key is the first admin key,
-- generated or configured.
create table api_keys (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  name text not null,
  secret_sha256 ${blob} not null unique,
  hint text,
  scopes text not null,
  is_service_key ${integer} not null default 0 check (is_service_key in (0, 1)),
  requests_per_minute ${integer},
  tokens_per_minute ${integer},
  max_requests_in_flight ${integer},
  created_at ${integer} not null,
  expires_at ${integer},
  revoked_at ${integer}
)${tableEnd};

-- Use of a key's limits per minute, shared by all processes.
create table key_budgets (
  key_id text not null primary key references api_keys (id),
  used_requests ${double} not null,
  used_tokens ${double} not null,
  used_at ${integer} not null
)${sortedTableEnd};

create table requests_in_flight (
  key_id text not null references api_keys (id),
  process_id text not null,
  num_requests ${integer} not null,
  lease_expires_at ${integer} not null,
  primary key (key_id, process_id)
)${sortedTableEnd};

-- Signed-in browsers, and links that sign one in.
create table sign_ins (
  position ${position},
  kind text not null check (kind in ('session', 'link')),
  secret_sha256 ${blob} not null unique,
  key_id text not null references api_keys (id),
  expires_at ${integer} not null
)${tableEnd};
create index sign_ins_by_key on sign_ins (key_id, kind, position);
create index sign_ins_by_expiry on sign_ins (expires_at);

-- Requests with an \`Idempotency-Key\`; \`owner\` is the process at work while there is no answer. No foreign
-- keys here and in \`usage\`: a removed key must not stop either.
create table idempotency_records (
  key_id text not null,
  key text not null,
  request_hash text not null,
  owner text,
  status ${integer},
  body text,
  created_at ${integer} not null,
  expires_at ${integer} not null,
  primary key (key_id, key),
  check ((status is null) = (body is null))
)${tableEnd};
create index idempotency_records_by_expiry on idempotency_records (expires_at);
`;

const models = ({ position, integer, tableEnd }: SchemaWords) => `
-- \`init_source\` is the checkpoint that the model started from. \`init_artifact_key\` is its directory for good:
-- it shows whose optimizer state is in a checkpoint that shares that directory.
create table models (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  project text not null,
  name text not null,
  base_model text not null,
  lora text not null,
  run_id text,
  init_source text,
  init_artifact_key text,
  next_step ${integer} not null check (next_step >= 1),
  num_gradient_steps ${integer} not null default 0,
  created_at ${integer} not null,
  deleted_at ${integer}
)${tableEnd};
create unique index models_by_name on models (entity_id, name, project) where deleted_at is null;
`;

const jobs = ({ position, integer, tableEnd, ...words }: SchemaWords) => `
-- One queue for all work that outlives its request. Of the jobs with the same \`turn\` (the model of a training
-- job, the export, the adapter) one runs at a time. The start is fixed at the first claim of a training job,
-- and at the creation of an export. Imports belong to no model; only training reads a blob (\`data_key\`).
create table jobs (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  model_id text references models (id),
  turn text not null,
  kind text not null check (kind in ('rl', 'sft', 'export', 'import')),
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  base_model text not null default '',
  config text not null,
  data_key text,
  -- The request that made the job, for logs, traces and usage.
  key_id text,
  request_id text,
  trace_parent text,
  usage_project text,
  -- The worker that holds the job. The fencing token grows with each claim; a write with an older one is refused.
  lease_owner text,
  lease_expires_at ${integer},
  fencing_token ${integer} not null default 0,
  num_attempts ${integer} not null default 0,
  start_step ${integer},
  start_artifact_key text,
  start_digest text,
  reference_artifact_key text,
  -- The newest snapshot, from which any machine with the base model continues.
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
  check ((kind in ('rl', 'sft')) = (data_key is not null) and (kind = 'import') = (model_id is null))
)${tableEnd};
create index live_jobs on jobs (position) where status in ('queued', 'running');
create index jobs_by_model on jobs (model_id, position);
create index jobs_with_old_data on jobs (finished_at) where data_removed_at is null and finished_at is not null;
create index jobs_by_data on jobs (data_key) where data_removed_at is null;
create unique index one_running_job on jobs (turn) where status = 'running';
create index jobs_by_turn on jobs (turn, position);
create index jobs_by_entity on jobs (entity_id, position);

-- Step 0 of a model is its start. A tombstone keeps its step number, which is never used twice. \`kept_at\` is a
-- user's mark; it, \`used_until\` and the sizes decide which checkpoints retention removes.
create table checkpoints (
  id text primary key,
  model_id text not null references models (id),
  step ${integer} not null check (step >= 0),
  job_id text unique references jobs (id),
  artifact_key text,
  digest text,
  metrics text not null,
  kept_at ${integer},
  used_until ${integer},
  size_bytes ${integer},
  optimizer_bytes ${integer},
  optimizer_dropped_at ${integer},
  created_at ${integer} not null,
  deleted_at ${integer},
  unique (model_id, step),
  check ((artifact_key is null) = (digest is null))
)${tableEnd};
create index checkpoints_by_artifact on checkpoints (artifact_key) where artifact_key is not null;

-- \`data\` is the payload as clients read it. An event with a \`dedupe_key\` is stored once per job.
create table job_events (
  id text primary key,
  job_id text not null references jobs (id),
  seq ${integer} not null,
  type text not null,
  data text not null,
  dedupe_key text,
  created_at ${integer} not null,
  unique (job_id, seq)
)${tableEnd};
create unique index job_events_once on job_events (job_id, dedupe_key) where dedupe_key is not null;
create unique index one_terminal_event on job_events (job_id) where type in ${TERMINAL_EVENTS};
${words.refuseInsert({
  trigger: 'nothing_after_the_terminal_event',
  table: 'job_events',
  when: `exists (select 1 from job_events where job_id = new.job_id and type in ${TERMINAL_EVENTS})`,
  message: 'the job has its terminal event already',
})}`;

const TERMINAL_EVENTS = "('training_ended', 'training_failed', 'job_ended', 'job_failed')";

const runs = ({ position, rowId, integer, double, tableEnd, sortedTableEnd, ...words }: SchemaWords) => `
-- The run of a model: one series per metric, one point per gradient step or log. Positions of a series count
-- from 0 without gaps.
create table metric_series (
  id ${rowId},
  model_id text not null references models (id),
  name text not null,
  num_points ${integer} not null,
  unique (model_id, name)
)${tableEnd};

create table metric_points (
  series_id ${integer} not null references metric_series (id),
  position ${integer} not null,
  step ${integer} not null,
  gradient_step ${integer},
  value ${double} not null,
  recorded_at ${integer} not null,
  primary key (series_id, position)
)${sortedTableEnd};

-- Events of all jobs and models in one order, for a week. A row of a job event refers to it (\`event_id\`) instead
-- of repeating its data.
create table feed (
  position ${position},
  entity_id text not null references entities (id),
  type text not null,
  model_id text,
  job_id text,
  event_id text,
  data text,
  created_at ${integer} not null,
  check ((event_id is null) = (data is not null))
)${tableEnd};
create index feed_by_entity on feed (entity_id, position);
create index feed_by_age on feed (created_at);
${words.notifyOnInsert({ trigger: 'feed_is_told', table: 'feed' })}
-- The feed position that each external tracker has reached, and its names of the runs.
create table tracker_positions (
  tracker text primary key,
  position ${integer} not null
)${tableEnd};

create table tracked_runs (
  tracker text not null,
  model_id text not null references models (id),
  run text not null,
  url text,
  num_gradient_steps ${integer} not null,
  primary key (tracker, model_id)
)${tableEnd};
create index tracked_runs_by_model on tracked_runs (model_id);
`;

const trajectories = ({ position, integer, double, blob, tableEnd }: SchemaWords) => `
-- Logged trajectories. Their content is a blob, which expires before the row.
create table trajectory_logs (
  position ${position},
  id text not null unique,
  model_id text not null references models (id),
  checkpoint_id text references checkpoints (id),
  step ${integer},
  split text not null,
  blob_key text not null,
  num_groups ${integer} not null,
  num_trajectories ${integer} not null,
  num_exceptions ${integer} not null,
  metrics text not null,
  created_at ${integer} not null,
  data_removed_at ${integer}
)${tableEnd};
create index trajectory_logs_by_model on trajectory_logs (model_id, position);
create index trajectory_logs_by_checkpoint on trajectory_logs (checkpoint_id, split, position);
create index logs_with_old_data on trajectory_logs (created_at) where data_removed_at is null;
create index logs_by_data on trajectory_logs (blob_key) where data_removed_at is null;

-- Trajectories of a job or log, to be listed: a set, and a row per trajectory. Their content stays in the blob
-- of the job or log. \`prompt_digest\` is equal for the same prompt in any job, log and step.
create table trajectory_sets (
  position ${position},
  id text not null unique,
  model_id text not null references models (id),
  job_id text references jobs (id),
  split text not null,
  step ${integer} not null
)${tableEnd};
create index trajectory_sets_by_model on trajectory_sets (model_id, step);
create index trajectory_sets_by_job on trajectory_sets (job_id);

create table trajectories (
  position ${position},
  set_position ${integer} not null references trajectory_sets (position),
  model_position ${integer} not null,
  group_index ${integer} not null,
  trajectory_index ${integer} not null,
  prompt_digest text,
  reward ${double} not null,
  outcome text,
  advantage ${double},
  unique (set_position, group_index, trajectory_index)
)${tableEnd};
create index trajectories_by_model on trajectories (model_position, position);
create index trajectories_by_reward on trajectories (model_position, reward, position);
create index trajectories_by_prompt on trajectories (model_position, prompt_digest, position);

-- The compressed trace of a trajectory's tokens in a gradient step.
create table token_traces (
  position ${position},
  trajectory_position ${integer} not null references trajectories (position),
  model_position ${integer} not null,
  gradient_step ${integer} not null,
  size_bytes ${integer} not null,
  created_at ${integer} not null,
  trace ${blob} not null
)${tableEnd};
create index token_traces_by_trajectory on token_traces (trajectory_position, position);
create index token_traces_by_model on token_traces (model_position, position, size_bytes);
create index token_traces_by_age on token_traces (created_at);
`;

const files = ({ position, integer, tableEnd }: SchemaWords) => `
-- Uploaded files by name and version. A tombstone keeps its version, which is never used again.
create table artifacts (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  project text not null,
  name text not null,
  version ${integer} not null check (version >= 0),
  file_name text not null,
  blob_key text not null unique,
  digest text not null,
  size_bytes ${integer} not null,
  num_lines ${integer} not null,
  created_at ${integer} not null,
  deleted_at ${integer},
  unique (entity_id, project, name, version)
)${tableEnd};

-- Checkpoints exported as files. Status, times and source are those of the job with the same id.
create table exports (
  position ${position},
  id text not null unique references jobs (id),
  model_id text not null references models (id),
  format text not null,
  dtype text not null,
  artifact_key text,
  files text not null,
  parity text,
  deleted_at ${integer},
  check (deleted_at is null or artifact_key is null)
)${tableEnd};
create index exports_by_model on exports (model_id, position);

-- Imported adapters. Until its commit an adapter has the keys of its uploads, afterwards a directory.
create table adapters (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  base_model text not null,
  config_key text,
  weights_key text,
  lora text,
  artifact_key text,
  digest text,
  created_at ${integer} not null,
  committed_at ${integer},
  deleted_at ${integer},
  check ((committed_at is null or deleted_at is not null) or (lora is not null and artifact_key is not null and digest is not null)),
  check ((committed_at is null and deleted_at is null) = (config_key is not null and weights_key is not null))
)${tableEnd};
create index adapters_by_entity on adapters (entity_id, position);
`;

const records = ({ position, rowId, integer, blob, tableEnd }: SchemaWords) => `
-- Sampled choices of trained models, kept for about a day; the choices of an answer share its prompt. Token ids
-- and log-probabilities are arrays of 32-bit numbers in the byte order of the machine.
create table answer_records (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  model_id text not null references models (id),
  step ${integer} not null,
  digest text,
  created_at ${integer} not null,
  size_bytes ${integer} not null,
  prompt_token_ids ${blob} not null
)${tableEnd};
create index answer_records_by_model on answer_records (model_id);
create index answer_records_by_age on answer_records (created_at, size_bytes);

-- \`sampling\` is JSON of the settings that changed the distribution ('null' = none; null = unknown), with the data
-- to compute it again: \`drawn_logprobs\`, next to those of the raw model, and \`kept_tokens\`, the allowed ones.
create table choice_records (
  id ${rowId},
  answer_position ${integer} not null references answer_records (position) on delete cascade,
  choice_index ${integer} not null,
  tokens_digest text,
  token_ids ${blob} not null,
  logprobs ${blob} not null check (length(logprobs) = length(token_ids)),
  sampling text,
  drawn_logprobs ${blob},
  kept_tokens ${blob},
  unique (answer_position, choice_index)
)${tableEnd};
create index choice_records_by_tokens on choice_records (tokens_digest);
`;

const answers = ({ position, integer, blob, tableEnd, sortedTableEnd }: SchemaWords) => `
-- Answers of \`/v1/responses\`, kept for clients that refer to them later. Ids are unique per entity and project,
-- since clients may choose them. Texts are compressed JSON. A background answer has an owner with a lease.
create table kept_answers (
  position ${position},
  id text not null,
  entity_id text not null references entities (id),
  project text not null,
  key_id text not null,
  model_id text references models (id),
  status text not null check (status in ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')),
  owner text,
  lease_expires_at ${integer},
  created_at ${integer} not null,
  expires_at ${integer} not null,
  size_bytes ${integer} not null,
  answer ${blob} not null,
  input ${blob} not null
)${tableEnd};
create unique index kept_answers_by_id on kept_answers (entity_id, project, id);
create index kept_answers_by_entity on kept_answers (entity_id, position, size_bytes, owner);
create index kept_answers_by_model on kept_answers (model_id);
create index kept_answers_by_end on kept_answers (expires_at);
create index kept_answers_by_owner on kept_answers (owner, lease_expires_at);

-- Finds the answer of an output item.
create table kept_items (
  answer_position ${integer} not null references kept_answers (position) on delete cascade,
  id text not null,
  primary key (answer_position, id)
)${sortedTableEnd};
create index kept_items_by_id on kept_items (id);

-- Events of a background answer, to be read again.
create table kept_answer_events (
  answer_position ${integer} not null references kept_answers (position) on delete cascade,
  first_number ${integer} not null,
  events ${blob} not null,
  primary key (answer_position, first_number)
)${sortedTableEnd};

-- Conversations of \`/v1/conversations\` and their items, in order. Items are compressed JSON; \`text_bytes\` is their
-- uncompressed length.
create table conversations (
  position ${position},
  id text not null,
  entity_id text not null references entities (id),
  project text not null,
  metadata text not null,
  created_at ${integer} not null,
  used_at ${integer} not null,
  expires_at ${integer} not null,
  size_bytes ${integer} not null,
  text_bytes ${integer} not null,
  num_items ${integer} not null,
  next_place ${integer} not null
)${tableEnd};
create unique index conversations_by_id on conversations (entity_id, project, id);
create index conversations_by_use on conversations (entity_id, used_at, position, size_bytes);
create index conversations_by_end on conversations (expires_at);

create table conversation_items (
  conversation_position ${integer} not null references conversations (position) on delete cascade,
  place ${integer} not null,
  id text not null,
  item ${blob} not null,
  text_bytes ${integer} not null,
  primary key (conversation_position, place)
)${sortedTableEnd};
create unique index conversation_items_by_id on conversation_items (id, conversation_position);
`;

const usage = ({ rowId, integer, tableEnd }: SchemaWords) => `
-- Token usage: a row per write, merged later into one per hour, key, project, model and kind, which carries the
-- start of its hour. A process finds a write whose answer was lost by its \`name\`.
create table usage (
  id ${rowId},
  name text,
  is_hour ${integer} not null default 0 check (is_hour in (0, 1)),
  recorded_at ${integer} not null,
  key_id text not null,
  entity_id text not null,
  project text,
  model text not null,
  kind text not null,
  num_requests ${integer} not null,
  prompt_tokens ${integer} not null,
  completion_tokens ${integer} not null
)${tableEnd};
create index usage_by_entity on usage (entity_id, recorded_at);
create index usage_to_merge on usage (recorded_at, id) where is_hour = 0;
create unique index usage_by_hour on usage (recorded_at, key_id, entity_id, (coalesce(project, '')), (project is null), model, kind) where is_hour = 1;
create unique index usage_by_name on usage (name) where name is not null;
`;

const services = ({ integer, tableEnd, sortedTableEnd, ...words }: SchemaWords) => `
-- Live parts of services, each under a lease.
create table members (
  id text not null,
  role text not null,
  url text,
  version text not null,
  facts text not null,
  started_at ${integer} not null,
  lease_expires_at ${integer} not null,
  primary key (id, role)
)${sortedTableEnd};
${words.notifyOnInsert({ trigger: 'members_are_told', table: 'members' })}
-- Every blob that a row was about to name or has named, until the blob is gone. \`orphaned_at\` is the time since
-- which no row names it.
create table announced_keys (
  key text primary key,
  owner text not null,
  announced_at ${integer} not null,
  orphaned_at ${integer}
)${tableEnd};
create index announced_keys_by_owner on announced_keys (owner);
create index announced_keys_by_age on announced_keys (announced_at);

-- Id of the blobs that belong to this database: a service with other blobs is refused.
create table blob_places (
  only_row ${integer} primary key check (only_row = 1),
  id text not null
)${tableEnd};

-- The last clock reading by which old data was removed.
create table trusted_clock (
  only_row ${integer} primary key check (only_row = 1),
  trusted_at ${integer} not null
)${tableEnd};
`;
