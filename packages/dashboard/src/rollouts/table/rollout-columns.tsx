import type { TrajectoryObject } from '@trainyard/sdk';
import type { ReactNode } from 'react';

import type { UnappliedStatus } from '../../api/jobs.ts';
import { formatCount, formatValue } from '../../components/numbers.ts';
import { shownName } from '../../components/shown-name.ts';
import { StatusDot } from '../../components/status-dot.tsx';
import { Ago } from '../../components/time.tsx';
import { outcomeWords } from '../outcome-words.ts';
import { RewardBar, type RewardScale } from './reward-bar.tsx';
import type { RolloutView } from './rollout-view.ts';

export interface RolloutColumn {
  /** In the address. */
  readonly name: string;
  readonly title: string;
  readonly width: string;
  /** Least width, px. */
  readonly minWidth: number;
  readonly sort?: RolloutView['sort'];
  readonly isNumber?: boolean;
  readonly cell: (rollout: TrajectoryObject, scale: RewardScale) => ReactNode;
}

const number = (value: number | null): string => (value === null ? '–' : formatCount(value));

/** @param statuses jobs that made no step of the model */
const fixedColumns = (statuses: ReadonlyMap<string, UnappliedStatus>): readonly RolloutColumn[] => [
  {
    name: 'outcome',
    title: 'Outcome',
    width: '116px',
    minWidth: 116,
    cell: ({ outcome, job_id: job }) => {
      const { tone, short } = outcomeWords(outcome, job === null, statuses.get(job ?? ''));
      return <StatusDot tone={tone}>{short}</StatusDot>;
    },
  },
  {
    name: 'reward',
    title: 'Reward',
    width: '108px',
    minWidth: 108,
    sort: 'reward',
    cell: ({ reward }, scale) => <RewardBar reward={reward} scale={scale} />,
  },
  {
    name: 'question',
    title: 'Question',
    width: 'minmax(140px, 1.2fr)',
    minWidth: 140,
    cell: ({ question }) => (question === null ? <span className="soft">–</span> : shownName(question)),
  },
  {
    name: 'reply',
    title: 'Last reply',
    width: 'minmax(160px, 1.4fr)',
    minWidth: 160,
    cell: ({ excerpt }) => <span className="rollout-excerpt">{excerpt === null ? '–' : shownName(excerpt)}</span>,
  },
  {
    name: 'turns',
    title: 'Turns',
    width: '62px',
    minWidth: 62,
    sort: 'num_turns',
    isNumber: true,
    cell: ({ num_turns: turns }) => number(turns),
  },
  {
    name: 'tokens',
    title: 'Tokens',
    width: '72px',
    minWidth: 72,
    sort: 'num_tokens',
    isNumber: true,
    cell: ({ num_tokens: tokens }) => number(tokens),
  },
  {
    name: 'ended',
    title: 'Ended by',
    width: '82px',
    minWidth: 82,
    cell: ({ finish_reason: reason }) => (reason === null ? '–' : shownName(reason.replaceAll('_', ' '))),
  },
  { name: 'step', title: 'Step', width: '52px', minWidth: 52, isNumber: true, cell: ({ step }) => formatCount(step) },
  { name: 'split', title: 'Split', width: '70px', minWidth: 70, cell: ({ split }) => shownName(split) },
  {
    name: 'group',
    title: 'Group',
    width: '58px',
    minWidth: 58,
    isNumber: true,
    cell: ({ group }) => formatCount(group),
  },
  {
    name: 'advantage',
    title: 'Advantage',
    width: '84px',
    minWidth: 84,
    isNumber: true,
    cell: ({ advantage }) => (advantage === null ? '–' : formatValue(advantage)),
  },
  {
    name: 'time',
    title: 'Time',
    width: '96px',
    minWidth: 96,
    sort: 'position',
    cell: ({ created_at: at }) => <Ago at={at} />,
  },
];

const METRIC = 'm.';
const DEFAULT = ['outcome', 'reward', 'question', 'reply', 'turns', 'tokens', 'ended', 'step'];
/** Own metrics shown by default. */
const DEFAULT_METRICS = 2;

/** All columns: the fixed ones, and one per own metric of these rollouts. */
export function columnsOf(
  rollouts: readonly TrajectoryObject[],
  statuses: ReadonlyMap<string, UnappliedStatus>,
): readonly RolloutColumn[] {
  const names = new Set<string>();
  for (const { metrics } of rollouts) for (const name of Object.keys(metrics)) names.add(name);
  return [
    ...fixedColumns(statuses),
    ...[...names].toSorted().map((name): RolloutColumn => ({
      name: METRIC + name,
      title: name,
      width: '84px',
      minWidth: 84,
      isNumber: true,
      cell: ({ metrics }) => (metrics[name] === undefined ? '–' : formatValue(metrics[name])),
    })),
  ];
}

/** The chosen columns, in their fixed order. @param chosen null: the default ones */
export function shownColumns(
  all: readonly RolloutColumn[],
  chosen: readonly string[] | null,
): readonly RolloutColumn[] {
  if (chosen !== null) return all.filter(({ name }) => chosen.includes(name));
  const metrics = all.filter(({ name }) => name.startsWith(METRIC)).slice(0, DEFAULT_METRICS);
  return all.filter((column) => DEFAULT.includes(column.name) || metrics.includes(column));
}
