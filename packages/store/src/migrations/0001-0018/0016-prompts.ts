import type { Migration } from '../migration.ts';

/**
 * Prompt digests, equal for trajectories that answer the same prompt in any job, log and step. Older
 * trajectories have none: their content may be gone.
 */
export const PROMPTS: Migration = {
  version: 16,
  name: 'prompts',
  sql: () => `
alter table trajectories add column prompt_digest text;
create index trajectories_by_prompt on trajectories (model_position, prompt_digest, position);
`,
};
