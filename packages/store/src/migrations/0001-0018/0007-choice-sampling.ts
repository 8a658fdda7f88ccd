import type { Migration } from '../migration.ts';

/**
 * How a choice was drawn: JSON of what changed the distribution ('null' = nothing; null = not known), and what it takes to compute it again:
 * log-probabilities as those of the raw model are kept, and the tokens that could be drawn.
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
