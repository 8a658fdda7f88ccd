import type { Migration } from '../migration.ts';

/**
 * Uploaded files by name and version. A deleted version stays as a tombstone, so that its number is never
 * reused.
 */
export const ARTIFACTS: Migration = {
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
