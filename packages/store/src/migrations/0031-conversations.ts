import type { Migration } from './migration.ts';

/**
 * Conversations of `/v1/conversations` and their items, in order. Texts of items are compressed JSON;
 * `text_bytes` is their uncompressed length.
 */
export const CONVERSATIONS: Migration = {
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
