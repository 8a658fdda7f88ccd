import type { Migration } from './migration.ts';

/** Moves metrics of rollouts from the step that their job made to the one they were sampled from. */
export const ROLLOUT_STEPS: Migration = {
  version: 26,
  name: 'rollout-steps',
  sql: () => `
update metric_points set step = step - 1
  where gradient_step is not null and step > 0 and series_id in (
    select id from metric_series where name in ('train/reward', 'train/reward_std_dev', 'train/exception_rate'));
`,
};
