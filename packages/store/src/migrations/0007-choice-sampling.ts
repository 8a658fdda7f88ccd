/**
 * How a choice was drawn: JSON of what changed the distribution ('null' = nothing; null = not known), and what it takes to compute it again:
 * log-probabilities as those of the raw model are kept, and the tokens that could be drawn.
 */
export const CHOICE_SAMPLING = {
  version: 7,
  name: 'choice-sampling',
  sql: `
alter table choice_records add column sampling text;
alter table choice_records add column drawn_logprobs blob;
alter table choice_records add column kept_tokens blob;
`,
} as const;
