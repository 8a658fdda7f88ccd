/** Uploaded files by name and version. A deleted version stays as a tombstone, so that its number is never given to another. */
export const ARTIFACTS = {
  version: 3,
  name: 'artifacts',
  sql: `
create table artifacts (
  position integer primary key autoincrement,
  id text not null unique,
  entity_id text not null references entities (id),
  project text not null,
  name text not null,
  version integer not null check (version >= 0),
  file_name text not null,
  blob_key text not null unique,
  digest text not null,
  size_bytes integer not null,
  num_lines integer not null,
  created_at integer not null,
  deleted_at integer,
  unique (entity_id, project, name, version)
) strict;
`,
} as const;
