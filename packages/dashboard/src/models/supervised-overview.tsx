import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject, TrainingJobObject } from '@trainyard/sdk';
import { useMemo } from 'react';

import { jobsQuery } from '../api/jobs.ts';
import { seriesQuery } from '../api/models.ts';
import { ChartCard } from '../charts/chart-card.tsx';
import type { ChartLine } from '../charts/chart-line.ts';
import { lineOf } from '../charts/series-lines.ts';
import { Fault } from '../components/fault.tsx';
import { FailedJob } from './failed-job.tsx';
import { heldOutWords } from '../jobs/held-out-words.ts';
import { LiveJobs } from '../jobs/live-jobs.tsx';
import { formatCount } from '../components/numbers.ts';
import { LOSS_OF_CONVERSATIONS } from './charts/chart-specs.ts';
import { BeforeAndAfter } from './before-and-after.tsx';
import { ModelFacts } from './model-facts.tsx';

const LOSSES = ['train/loss', 'held_out/loss', 'val/loss', 'test/loss'];
const LABELS: Readonly<Record<string, string>> = {
  'train/loss': 'trained conversations',
  'held_out/loss': 'held-out conversations',
  'val/loss': 'val',
  'test/loss': 'test',
};

/** Overview of a model that learns from conversations: its loss, its file, and replies before and after. */
export function SupervisedOverview({ model }: { model: ModelDetailsObject }) {
  const { data, error } = useQuery(seriesQuery(model.id, LOSSES, { axis: 'gradient_step', from: null, to: null }));
  const jobs = useInfiniteQuery(jobsQuery(model.id)).data?.pages.flatMap((page) => page.data) ?? [];
  const ofKind = jobs.filter(({ kind }) => kind === 'sft');
  const last = ofKind.find(({ status }) => status !== 'failed' && status !== 'cancelled');
  const shown = last ?? ofKind[0];
  const lines = useMemo(
    () =>
      (data?.data ?? []).flatMap((series, index) =>
        series.last.length + series.discarded.at.length === 0
          ? []
          : [lineOf(series, (index + 1) as ChartLine['color'], LABELS[series.name] ?? series.name)],
      ),
    [data],
  );
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <ModelFacts model={model} loss={data?.data.find(({ name }) => name === 'train/loss')} />
      <FailedJob job={model.last_job} />
      <LiveJobs modelId={model.id} />
      <ChartCard
        title="Loss"
        level="h2"
        xName="gradient step"
        help={LOSS_OF_CONVERSATIONS}
        lines={lines}
        height={220}
        empty={data === undefined ? null : <p className="soft">The curve starts with the first gradient step.</p>}
      />
      {shown === undefined ? null : <TrainingData job={shown} />}
      {last === undefined || model.latest_step === null ? null : (
        <BeforeAndAfter model={model} job={last} latestStep={model.latest_step} />
      )}
    </>
  );
}

/** File of a job, its lines, and the lines that were not trained. */
function TrainingData({ job }: { job: TrainingJobObject }) {
  const { training_data: data, counts, config } = job;
  const dropped = Object.entries((counts?.['dropped_trajectories'] ?? {}) as Record<string, number>).filter(
    ([, count]) => count > 0,
  );
  const counted = counts?.['num_trajectories_submitted'];
  const lines = data?.num_lines ?? (typeof counted === 'number' ? counted : undefined);
  return (
    <section className="chart-group" aria-label="Training data">
      <h2>Training data</h2>
      <p>
        {data === null ? null : (
          <>
            <code className="training-file">{data.url}</code> ·{' '}
          </>
        )}
        {lines === undefined ? null : <strong>{formatCount(lines)} conversations</strong>}
        {` · ${String(config['epochs'])} ${config['epochs'] === 1 ? 'epoch' : 'epochs'} · ${String(config['batch_size'])} per gradient step`}
        {data?.held_out == null ? null : ` · held out: ${heldOutWords(data.held_out)}`}
        {dropped.map(([reason, count]) => ` · ${count} not trained: ${reason.replaceAll('_', ' ')}`)}
      </p>
    </section>
  );
}
