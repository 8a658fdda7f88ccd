import type { SchemaWords } from '../../contract/schema-words.ts';
import type { Migration } from '../migration.ts';

/** Every earlier column of jobs, in this order. */
const JOB_COLUMNS = `position, id, model_id, kind, status, config, data_key, key_id, lease_owner, lease_expires_at, fencing_token, num_attempts,
  start_step, start_artifact_key, start_digest, reference_artifact_key, error_message, paused_at, created_at, started_at, finished_at, data_removed_at`;

const KINDS = "kind in ('rl', 'sft', 'export', 'import')";
const ENDS = "('training_ended', 'training_failed', 'job_ended', 'job_failed')";
/** Training reads a blob; imports belong to no model. */
const OF_A_KIND = "(kind in ('rl', 'sft')) = (data_key is not null) and (kind = 'import') = (model_id is null)";

const newJobs = ({ position, integer, tableEnd }: SchemaWords) => `
create table next_jobs (
  position ${position},
  id text not null unique,
  entity_id text not null references entities (id),
  model_id text references models (id),
  turn text not null,
  kind text not null check (${KINDS}),
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  config text not null,
  data_key text,
  key_id text,
  lease_owner text,
  lease_expires_at ${integer},
  fencing_token ${integer} not null default 0,
  num_attempts ${integer} not null default 0,
  start_step ${integer},
  start_artifact_key text,
  start_digest text,
  reference_artifact_key text,
  error_message text,
  paused_at ${integer},
  created_at ${integer} not null,
  started_at ${integer},
  finished_at ${integer},
  data_removed_at ${integer} check (data_removed_at is null or finished_at is not null),
  check ((status = 'running') = (lease_owner is not null)),
  check ((status = 'running') = (lease_expires_at is not null)),
  check ((status in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
  check (${OF_A_KIND})
)${tableEnd};
insert into next_jobs (${JOB_COLUMNS}, entity_id, turn)
  select ${JOB_COLUMNS}, (select entity_id from models where models.id = jobs.model_id), model_id from jobs;
drop table jobs;
alter table next_jobs rename to jobs;
create index live_jobs on jobs (position) where status in ('queued', 'running');
create index jobs_by_model on jobs (model_id, position);
create index jobs_with_old_data on jobs (finished_at) where data_removed_at is null and finished_at is not null;
create index jobs_by_data on jobs (data_key) where data_removed_at is null;
`;

const alteredJobs = `
alter table jobs add column entity_id text references entities (id);
alter table jobs add column turn text;
update jobs set turn = model_id, entity_id = (select entity_id from models where models.id = jobs.model_id);
alter table jobs alter column entity_id set not null;
alter table jobs alter column turn set not null;
alter table jobs alter column model_id drop not null;
alter table jobs alter column data_key drop not null;
alter table jobs drop constraint jobs_kind_check;
alter table jobs add check (${KINDS});
alter table jobs add check (${OF_A_KIND});
drop index one_running_job;
`;

/** A running job continues from the queue; one deleted before its end counts as cancelled. */
const MOVED_EXPORTS = `
insert into jobs (id, entity_id, model_id, turn, kind, status, config, fencing_token, num_attempts, start_step, start_artifact_key, start_digest,
    error_message, created_at, started_at, finished_at)
  select x.id, m.entity_id, x.model_id, x.id, 'export',
    case when x.finished_at is null and x.deleted_at is not null then 'cancelled' when x.status = 'running' then 'queued' else x.status end,
    '{}', x.num_attempts, x.num_attempts, x.step, x.source_artifact_key, x.source_digest, x.error_message, x.created_at, x.started_at,
    coalesce(x.finished_at, x.deleted_at)
  from exports x join models m on m.id = x.model_id order by x.position;
`;

const newExports = ({ position, integer, tableEnd }: SchemaWords) => `
create table next_exports (
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
insert into next_exports (position, id, model_id, format, dtype, artifact_key, files, parity, deleted_at)
  select position, id, model_id, format, dtype, artifact_key, files, parity, deleted_at from exports;
drop table exports;
alter table next_exports rename to exports;
create index exports_by_model on exports (model_id, position);
`;

const alteredExports = `
drop index live_exports;
alter table exports drop column status, drop column step, drop column source_artifact_key, drop column source_digest, drop column num_attempts,
  drop column error_message, drop column created_at, drop column started_at, drop column finished_at, drop column lease_owner,
  drop column lease_expires_at;
alter table exports add foreign key (id) references jobs (id);
alter table exports add check (deleted_at is null or artifact_key is null);
`;

/**
 * One queue for all work that outlives its request: an export is a job whose start is the checkpoint it
 * reads, and an import is a job, too. Of the jobs with the same `turn` one runs at a time. Jobs that do not
 * train end with `job_ended` or `job_failed`.
 */
const ONE_QUEUE: Migration = {
  version: 12,
  name: 'one-queue',
  sql: (words) => `
${words.reshape({ rebuild: newJobs(words), alter: alteredJobs })}
create unique index one_running_job on jobs (turn) where status = 'running';
create index jobs_by_turn on jobs (turn, position);
${MOVED_EXPORTS}
${words.reshape({ rebuild: newExports(words), alter: alteredExports })}
drop index one_terminal_event;
create unique index one_terminal_event on job_events (job_id) where type in ${ENDS};
${words.dropRefusal({ trigger: 'nothing_after_the_terminal_event', table: 'job_events' })}
${words.refuseInsert({
  trigger: 'nothing_after_the_terminal_event',
  table: 'job_events',
  when: `exists (select 1 from job_events where job_id = new.job_id and type in ${ENDS})`,
  message: 'the job has its terminal event already',
})}
`,
};

/**
 * Every model has a run: its measurements during training, one series per metric, one point per gradient step
 * or log. Positions of a series count from 0 without gaps. `feed` has the events of all jobs and models in
 * one order; rows of job events refer to theirs instead of repeating it.
 */
const RUNS: Migration = {
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

/**
 * Lists trajectories: a set per job or log that has some, and a row per trajectory; their content stays in
 * the blob of the job or log. `token_traces` has the compressed trace of their tokens in a gradient step.
 */
const TRAJECTORIES: Migration = {
  version: 14,
  name: 'trajectories',
  sql: (words) => `
create table trajectory_sets (
  position ${words.position},
  id text not null unique,
  model_id text not null references models (id),
  job_id text references jobs (id),
  split text not null,
  step ${words.integer} not null
)${words.tableEnd};
create index trajectory_sets_by_model on trajectory_sets (model_id, step);

create table trajectories (
  position ${words.position},
  set_position ${words.integer} not null references trajectory_sets (position),
  model_position ${words.integer} not null,
  group_index ${words.integer} not null,
  trajectory_index ${words.integer} not null,
  reward ${words.double} not null,
  outcome text,
  advantage ${words.double},
  unique (set_position, group_index, trajectory_index)
)${words.tableEnd};
create index trajectories_by_model on trajectories (model_position, position);
create index trajectories_by_reward on trajectories (model_position, reward, position);

create table token_traces (
  position ${words.position},
  trajectory_position ${words.integer} not null references trajectories (position),
  model_position ${words.integer} not null,
  gradient_step ${words.integer} not null,
  size_bytes ${words.integer} not null,
  created_at ${words.integer} not null,
  trace ${words.blob} not null
)${words.tableEnd};
create index token_traces_by_trajectory on token_traces (trajectory_position, position);
create index token_traces_by_model on token_traces (model_position, position, size_bytes);
create index token_traces_by_age on token_traces (created_at);
`,
};

/** External trackers: the feed position each has reached, and its names of the runs. */
const TRACKERS: Migration = {
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

/**
 * Prompt digests, equal for trajectories that answer the same prompt in any job, log and step. Older
 * trajectories have none: their content may be gone.
 */
const PROMPTS: Migration = {
  version: 16,
  name: 'prompts',
  sql: () => `
alter table trajectories add column prompt_digest text;
create index trajectories_by_prompt on trajectories (model_position, prompt_digest, position);
`,
};

/** Signed-in browsers, and links that sign one in. Stores only the SHA-256 of a secret. */
const SIGN_INS: Migration = {
  version: 17,
  name: 'sign-ins',
  sql: (words) => `
create table sign_ins (
  position ${words.position},
  kind text not null check (kind in ('session', 'link')),
  secret_sha256 ${words.blob} not null unique,
  key_id text not null references api_keys (id),
  expires_at ${words.integer} not null
)${words.tableEnd};
create index sign_ins_by_key on sign_ins (key_id, kind, position);
create index sign_ins_by_expiry on sign_ins (expires_at);
`,
};

/**
 * Several services on one database: an addition to the feed notifies the others, if the database can.
 * `blob_places` names the blobs that belong to this database, so that a service with other blobs is detected.
 */
const SEVERAL_SERVICES: Migration = {
  version: 18,
  name: 'several-services',
  sql: (words) => `
create table blob_places (
  only_row ${words.integer} primary key check (only_row = 1),
  id text not null
)${words.tableEnd};
${words.notifyOnInsert({ trigger: 'feed_is_told', table: 'feed' })}
`,
};

export const STEPS_12_TO_18: readonly Migration[] = [
  ONE_QUEUE,
  RUNS,
  TRAJECTORIES,
  TRACKERS,
  PROMPTS,
  SIGN_INS,
  SEVERAL_SERVICES,
];
