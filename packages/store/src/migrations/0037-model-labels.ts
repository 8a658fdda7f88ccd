import type { Migration } from './migration.ts';

/** Words of people about a model: tags, notes, and its place in the archive (null: it is in the lists). */
export const MODEL_LABELS: Migration = {
  version: 37,
  name: 'model labels',
  sql: ({ integer, sortedTableEnd }) => `
alter table models add column notes text not null default '';
alter table models add column archived_at ${integer};
create table model_tags (
  model_id text not null references models (id),
  tag text not null,
  primary key (model_id, tag)
)${sortedTableEnd};
create index model_tags_by_tag on model_tags (tag, model_id);`,
};
