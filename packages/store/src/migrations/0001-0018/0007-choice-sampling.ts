import type { Migration } from '../migration.ts';

/**
 * Sampling of a choice: JSON of the settings that changed the distribution ('null' = none; null = unknown),
 * and the data to compute it again: log-probabilities, stored like those of the raw model, and the allowed
 * tokens.
 */
export const CHOICE_SAMPLING: Migration = {
  version: 7,
  name: 'choice-sampling',
  sql: (words) => `
alter table choice_records add column sampling text;
alter table choice_records add column drawn_logprobs ${words.blob};
alter table choice_records add column kept_tokens ${words.blob};
`,
};
