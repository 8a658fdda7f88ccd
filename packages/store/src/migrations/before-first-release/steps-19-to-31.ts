import type { Migration } from '../migration.ts';

/** Live parts of a service, each under a lease. A new member notifies the others, if the database can. */
const MEMBERS: Migration = {
  version: 19,
  name: 'members',
  sql: (words) => `
create table members (
  id text not null,
  role text not null,
  url text,
  version text not null,
  facts text not null,
  started_at ${words.integer} not null,
  lease_expires_at ${words.integer} not null,
  primary key (id, role)
)${words.sortedTableEnd};
${words.notifyOnInsert({ trigger: 'members_are_told', table: 'members' })}
`,
};

/** Request that made a job, for logs, traces and usage on any machine that works on it. */
const JOB_ORIGIN: Migration = {
  version: 20,
  name: 'job-origin',
  sql: () => `
alter table jobs add column request_id text;
alter table jobs add column trace_parent text;
alter table jobs add column usage_project text;
`,
};

/** Base model and newest snapshot of a job, so that it can move to any machine with both. */
const MOVING_JOBS: Migration = {
  version: 21,
  name: 'moving-jobs',
  sql: (words) => `
alter table jobs add column base_model text not null default '';
update jobs set base_model = coalesce(
  (select base_model from models where models.id = jobs.model_id),
  (select base_model from adapters where adapters.id = jobs.turn),
  '');
alter table jobs add column snapshot_key text;
alter table jobs add column snapshot_steps ${words.integer};
`,
};

/**
 * Names of usage rows, by which a process finds the result of a write whose answer was lost. Hours and older
 * rows have none.
 */
const USAGE_NAMES: Migration = {
  version: 22,
  name: 'usage-names',
  sql: () => `
alter table usage add column name text;
create unique index usage_by_name on usage (name) where name is not null;
`,
};

/** Limits of keys, shared by all processes: the use so far, and the requests in flight per process. */
const KEY_LIMITS: Migration = {
  version: 23,
  name: 'key-limits',
  sql: (words) => `
alter table api_keys add column requests_per_minute ${words.integer};
alter table api_keys add column tokens_per_minute ${words.integer};
alter table api_keys add column max_requests_in_flight ${words.integer};
create table key_budgets (
  key_id text not null primary key references api_keys (id),
  used_requests ${words.double} not null,
  used_tokens ${words.double} not null,
  used_at ${words.integer} not null
)${words.sortedTableEnd};
create table requests_in_flight (
  key_id text not null references api_keys (id),
  process_id text not null,
  num_requests ${words.integer} not null,
  lease_expires_at ${words.integer} not null,
  primary key (key_id, process_id)
)${words.sortedTableEnd};
`,
};

/**
 * Removing a row checks every table that may refer to it: indexes replace a scan of the whole table per
 * removed row.
 */
const INDEXED_REFERENCES: Migration = {
  version: 24,
  name: 'indexed-references',
  sql: () => `
create index trajectory_sets_by_job on trajectory_sets (job_id);
create index tracked_runs_by_model on tracked_runs (model_id);
`,
};

/** An index row of a server has room for 2,700 bytes. */
const MAX_CHARACTERS = 256;

/**
 * Limits names of series to the length that can be requested, so that every database can hold them. Names
 * with the same start get their number.
 */
const SHORT_SERIES_NAMES: Migration = {
  version: 25,
  name: 'short-series-names',
  sql: () => `
update metric_series set name = substr(name, 1, 230) || ' ' || cast(id as text)
  where length(name) > ${MAX_CHARACTERS} and exists (
    select 1 from metric_series other where other.model_id = metric_series.model_id and other.id <> metric_series.id
      and substr(other.name, 1, ${MAX_CHARACTERS}) = substr(metric_series.name, 1, ${MAX_CHARACTERS}));
update metric_series set name = substr(name, 1, ${MAX_CHARACTERS}) where length(name) > ${MAX_CHARACTERS};
`,
};

/** Moves metrics of rollouts from the step that their job made to the one they were sampled from. */
const ROLLOUT_STEPS: Migration = {
  version: 26,
  name: 'rollout-steps',
  sql: () => `
update metric_points set step = step - 1
  where gradient_step is not null and step > 0 and series_id in (
    select id from metric_series where name in ('train/reward', 'train/reward_std_dev', 'train/exception_rate'));
`,
};

/**
 * Records every blob that the database announced or named until the blob is gone, and the time since which no
 * row names it. `trusted_clock` has the last clock reading used to remove old data.
 */
const KNOWN_BLOBS: Migration = {
  version: 27,
  name: 'known-blobs',
  sql: (words) => `
alter table announced_keys add column orphaned_at ${words.integer};
create table trusted_clock (
  only_row ${words.integer} primary key check (only_row = 1),
  trusted_at ${words.integer} not null
)${words.tableEnd};
`,
};

/**
 * Finds choices also by their tokens and log-probabilities. Older ones lack this, and expire within a day or
 * so.
 */
const CHOICES_BY_TOKENS: Migration = {
  version: 28,
  name: 'choices-by-tokens',
  sql: () => `
alter table choice_records add column tokens_digest text;
create index choice_records_by_tokens on choice_records (tokens_digest);
`,
};

/**
 * Facts that decide which checkpoints are kept: a user's mark, the end of a version's use, and sizes of
 * files. Checkpoints from before this release are marked, so that an upgrade removes nothing.
 */
const KEPT_CHECKPOINTS: Migration = {
  version: 29,
  name: 'kept-checkpoints',
  sql: (words) => `
alter table checkpoints add column kept_at ${words.integer};
alter table checkpoints add column used_until ${words.integer};
alter table checkpoints add column size_bytes ${words.integer};
alter table checkpoints add column optimizer_bytes ${words.integer};
alter table checkpoints add column optimizer_dropped_at ${words.integer};
update checkpoints set kept_at = created_at where deleted_at is null;
`,
};

/**
 * Answers of `/v1/responses`, kept for clients that refer to them later. Ids are unique per entity and
 * project, since clients may choose them. Texts are compressed JSON. `kept_items` finds the answer of an
 * output item; events of a background answer are kept to be read again.
 */
const KEPT_ANSWERS: Migration = {
  version: 30,
  name: 'kept-answers',
  sql: (words) => `
create table kept_answers (
  position ${words.position},
  id text not null,
  entity_id text not null references entities (id),
  project text not null,
  key_id text not null,
  model_id text references models (id),
  status text not null check (status in ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')),
  owner text,
  lease_expires_at ${words.integer},
  created_at ${words.integer} not null,
  expires_at ${words.integer} not null,
  size_bytes ${words.integer} not null,
  answer ${words.blob} not null,
  input ${words.blob} not null
)${words.tableEnd};
create unique index kept_answers_by_id on kept_answers (entity_id, project, id);
create index kept_answers_by_entity on kept_answers (entity_id, position, size_bytes, owner);
create index kept_answers_by_model on kept_answers (model_id);
create index kept_answers_by_end on kept_answers (expires_at);
create index kept_answers_by_owner on kept_answers (owner, lease_expires_at);

create table kept_items (
  answer_position ${words.integer} not null references kept_answers (position) on delete cascade,
  id text not null,
  primary key (answer_position, id)
)${words.sortedTableEnd};
create index kept_items_by_id on kept_items (id);

create table kept_answer_events (
  answer_position ${words.integer} not null references kept_answers (position) on delete cascade,
  first_number ${words.integer} not null,
  events ${words.blob} not null,
  primary key (answer_position, first_number)
)${words.sortedTableEnd};
`,
};

/**
 * Conversations of `/v1/conversations` and their items, in order. Texts of items are compressed JSON;
 * `text_bytes` is their uncompressed length.
 */
const CONVERSATIONS: Migration = {
  version: 31,
  name: 'conversations',
  sql: (words) => `
create table conversations (
  position ${words.position},
  id text not null,
  entity_id text not null references entities (id),
  project text not null,
  metadata text not null,
  created_at ${words.integer} not null,
  used_at ${words.integer} not null,
  expires_at ${words.integer} not null,
  size_bytes ${words.integer} not null,
  text_bytes ${words.integer} not null,
  num_items ${words.integer} not null,
  next_place ${words.integer} not null
)${words.tableEnd};
create unique index conversations_by_id on conversations (entity_id, project, id);
create index conversations_by_use on conversations (entity_id, used_at, position, size_bytes);
create index conversations_by_end on conversations (expires_at);

create table conversation_items (
  conversation_position ${words.integer} not null references conversations (position) on delete cascade,
  place ${words.integer} not null,
  id text not null,
  item ${words.blob} not null,
  text_bytes ${words.integer} not null,
  primary key (conversation_position, place)
)${words.sortedTableEnd};
create unique index conversation_items_by_id on conversation_items (id, conversation_position);
`,
};

export const STEPS_19_TO_31: readonly Migration[] = [
  MEMBERS,
  JOB_ORIGIN,
  MOVING_JOBS,
  USAGE_NAMES,
  KEY_LIMITS,
  INDEXED_REFERENCES,
  SHORT_SERIES_NAMES,
  ROLLOUT_STEPS,
  KNOWN_BLOBS,
  CHOICES_BY_TOKENS,
  KEPT_CHECKPOINTS,
  KEPT_ANSWERS,
  CONVERSATIONS,
];
