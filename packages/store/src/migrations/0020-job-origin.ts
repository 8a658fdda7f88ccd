import type { Migration } from './migration.ts';

/** Request that made a job, for logs, traces and usage on any machine that works on it. */
export const JOB_ORIGIN: Migration = {
  version: 20,
  name: 'job-origin',
  sql: () => `
alter table jobs add column request_id text;
alter table jobs add column trace_parent text;
alter table jobs add column usage_project text;
`,
};
