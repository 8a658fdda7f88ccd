import type { Migration } from '../migration.ts';

/**
 * Sampled choices by id, kept for a day or so. Token ids and log-probabilities are arrays of 32-bit numbers
 * in the byte order of the machine; the choices of an answer share its prompt.
 */
export const CHOICE_RECORDS: Migration = {
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
