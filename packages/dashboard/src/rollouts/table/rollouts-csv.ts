import type { TrajectoryObject } from '@trainyard/sdk';

import { quoted } from '../../charts/csv.ts';

const COLUMNS = [
  'id',
  'split',
  'step',
  'job_id',
  'log_id',
  'group',
  'index',
  'reward',
  'outcome',
  'advantage',
  'question',
  'excerpt',
  'num_turns',
  'num_tokens',
  'finish_reason',
  'prompt_digest',
  'created_at',
] as const;

/** A row per rollout, with a column per own metric. */
export function toCsv(rollouts: readonly TrajectoryObject[]): string {
  const names = [...new Set(rollouts.flatMap(({ metrics }) => Object.keys(metrics)))].toSorted();
  const cell = (value: string | number | null | undefined) =>
    value === null || value === undefined ? '' : typeof value === 'number' ? String(value) : quoted(value);
  const rows = rollouts.map((rollout) =>
    [...COLUMNS.map((name) => cell(rollout[name])), ...names.map((name) => cell(rollout.metrics[name]))].join(','),
  );
  const head = [...COLUMNS, ...names.map((name) => quoted(`metrics.${name}`))].join(',');
  return `${[head, ...rows].join('\n')}\n`;
}
