import type { Migration } from './migration.ts';

/**
 * Finds choices also by their tokens and log-probabilities. Older ones lack this, and expire within a day or
 * so.
 */
export const CHOICES_BY_TOKENS: Migration = {
  version: 28,
  name: 'choices-by-tokens',
  sql: () => `
alter table choice_records add column tokens_digest text;
create index choice_records_by_tokens on choice_records (tokens_digest);
`,
};
