import type { Migration } from '../migration.ts';

/** Which trajectories answer the same prompt, of whatever job, log and step. Those from before have none: their words may be gone. */
export const PROMPTS: Migration = {
  version: 16,
  name: 'prompts',
  sql: () => `
alter table trajectories add column prompt_digest text;
create index trajectories_by_prompt on trajectories (model_position, prompt_digest, position);
`,
};
