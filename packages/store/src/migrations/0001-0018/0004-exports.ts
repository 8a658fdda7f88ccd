import type { Migration } from '../migration.ts';

/**
 * Checkpoints exported as files, and imported adapters.
 *
 * Deleted rows stay as tombstones, so that page cursors continue to work; those of deleted models are removed
 * with them.
 */
export const EXPORTS: Migration = {
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
