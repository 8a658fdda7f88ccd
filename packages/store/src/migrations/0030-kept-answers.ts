import type { Migration } from './migration.ts';

/**
 * Answers of `/v1/responses`, kept for clients that refer to them later. Ids are unique per entity and
 * project, since clients may choose them. Texts are compressed JSON. `kept_items` finds the answer of an
 * output item; events of a background answer are kept to be read again.
 */
export const KEPT_ANSWERS: Migration = {
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
