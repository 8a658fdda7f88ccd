import { useInfiniteQuery } from '@tanstack/react-query';
import type { ModelDetailsObject, TrainingJobObject } from '@trainyard/sdk';
import { useMemo } from 'react';
import { Link } from 'wouter';

import { type JobFilter, jobsQuery } from '../api/jobs.ts';
import { useMorePages } from '../api/more-pages.ts';
import { CutName } from '../components/lists/cut-name.tsx';
import { Empty } from '../components/empty.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { type LongColumn, LongTable } from '../components/long-table.tsx';
import { formatDuration } from '../components/numbers.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { JobProgress } from './job-progress.tsx';
import { jobState, KIND_WORDS } from './job-state.ts';
import { shownName } from '../components/shown-name.ts';

/** Training jobs of one model or of all, newest first. */
export function JobTable({
  modelId,
  filter = {},
  models = NO_MODELS,
}: {
  modelId: string | null;
  filter?: JobFilter;
  /** Models with their names, for a list of all jobs. */
  models?: readonly ModelDetailsObject[];
}) {
  const list = useInfiniteQuery(jobsQuery(modelId, filter));
  const { data, error } = list;
  const more = useMorePages(list);
  const jobs = data?.pages.flatMap((page) => page.data);
  const columns = useMemo(() => (modelId === null ? columnsWith(models) : COLUMNS), [modelId, models]);
  if (jobs === undefined) return error === null ? null : <Fault error={error} />;
  if (jobs.length === 0 && Object.keys(filter).length > 0)
    return <Empty title="No jobs match">Choose another state, kind or project.</Empty>;
  if (jobs.length === 0)
    return (
      <EmptyUntilTrained title="No training jobs yet" demo="The demo creates some." command={TRAINS_BY_EXAMPLE}>
        A job is a set of scored rollouts or conversations that a model learns from.
      </EmptyUntilTrained>
    );
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <LongTable
        caption="Training jobs"
        columns={columns}
        rows={jobs}
        keyOf={({ id }) => id}
        rowHeight={46}
        minWidth={modelId === null ? 1050 : 900}
        onEnd={more}
      />
    </>
  );
}

const NO_MODELS: readonly ModelDetailsObject[] = [];

function columnsWith(models: readonly ModelDetailsObject[]): readonly LongColumn<TrainingJobObject>[] {
  const byId = new Map(models.map((model) => [model.id, model]));
  const [job, ...rest] = COLUMNS;
  return [
    job!,
    {
      name: 'Model',
      width: 'minmax(150px, 2fr)',
      cell: ({ model_id: id }) => {
        const model = byId.get(id);
        const name = model === undefined ? id.slice(0, 8) : shownName(`${model.project}/${model.name}`);
        return (
          <Link href={`/models/${encodeURIComponent(id)}`}>
            <CutName text={name} />
          </Link>
        );
      },
    },
    ...rest,
  ];
}

const COLUMNS: readonly LongColumn<TrainingJobObject>[] = [
  {
    name: 'Job',
    width: '90px',
    cell: ({ id }) => (
      <Link className="mono" href={`/jobs/${encodeURIComponent(id)}`}>
        {id.slice(0, 8)}
      </Link>
    ),
  },
  { name: 'Kind', width: '104px', cell: ({ kind }) => KIND_WORDS[kind] },
  {
    name: 'State',
    width: '110px',
    cell: (job) => <StatusDot tone={jobState(job).tone}>{jobState(job).text}</StatusDot>,
  },
  { name: 'Gradient steps', width: 'minmax(150px, 1.4fr)', cell: (job) => <JobProgress job={job} /> },
  { name: 'Step', width: '60px', isNumber: true, cell: ({ start_step: step }) => step ?? '–' },
  { name: 'Warnings', width: '80px', isNumber: true, cell: ({ warnings }) => warnings.length || '' },
  {
    name: 'Took',
    width: '110px',
    isNumber: true,
    cell: ({ started_at: start, finished_at: end }) =>
      start === null || end === null ? '–' : formatDuration(end - start),
  },
  { name: 'Submitted', width: '120px', cell: ({ created_at: at }) => <Ago at={at} /> },
];
