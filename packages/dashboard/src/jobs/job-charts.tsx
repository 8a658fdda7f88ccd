import { useMemo } from 'react';
import type { TrainingEventObject } from '@trainyard/sdk';

import { ChartCard } from '../charts/chart-card.tsx';
import type { ChartLine } from '../charts/chart-line.ts';

/** Loss, and gap of sampler and trainer, over the gradient steps of a job; nothing for a job of one step. */
export function JobCharts({ events }: { events: readonly TrainingEventObject[] }) {
  const losses = useMemo(
    () => [
      ...linesOf(events, { policy_loss: 'policy' }),
      ...linesOf(events, { loss: 'trained conversations' }),
      ...heldOutLine(events),
    ],
    [events],
  );
  const gaps = useMemo(() => linesOf(events, { logprob_gap_mean: 'mean', logprob_gap_max: 'max' }), [events]);
  const charts = [
    { title: 'Loss', lines: losses, isLog: false, help: '' },
    {
      title: 'Gap of sampler and trainer',
      lines: gaps,
      isLog: true,
      help: 'Step 0 compares both on fresh rollouts; later steps include what the job has learnt.',
    },
  ].filter(({ lines }) => (lines[0]?.x.length ?? 0) > 1);
  if (charts.length === 0) return null;
  return (
    <div className="job-charts">
      {charts.map(({ title, lines, isLog, help }) => (
        <ChartCard
          key={title}
          title={title}
          level="h2"
          xName="gradient step"
          height={130}
          lines={lines}
          isLog={isLog}
          {...(help === '' ? {} : { help })}
        />
      ))}
    </div>
  );
}

/** A line for each metric that the steps have. */
function linesOf(events: readonly TrainingEventObject[], names: Readonly<Record<string, string>>): ChartLine[] {
  const steps = events.filter(({ type }) => type === 'gradient_step');
  return Object.entries(names).flatMap(([metric, name], index) => {
    const points = steps.flatMap(({ data }, step) => {
      // The first step compares fresh rollouts; a metric may have a name for either.
      const value = data[metric] ?? data[`fresh/${metric}`] ?? data[`updated/${metric}`];
      return typeof value === 'number' ? [[step, value] as const] : [];
    });
    if (points.length === 0) return [];
    return [
      {
        name,
        color: (index + 1) as ChartLine['color'],
        x: points.map(([step]) => step),
        y: points.map(([, value]) => value),
      },
    ];
  });
}

/** Loss of held-out conversations, by the gradient steps before each measurement. */
function heldOutLine(events: readonly TrainingEventObject[]): ChartLine[] {
  const measured = events.filter(({ type }) => type === 'held_out');
  if (measured.length === 0) return [];
  const column = (name: string) => measured.map(({ data }) => Number(data[name]));
  return [{ name: 'held-out conversations', color: 2, x: column('gradient_step'), y: column('loss') }];
}
