import './jobs.css';
import { useQuery } from '@tanstack/react-query';
import type { TrainingJobObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { jobQuery } from '../api/jobs.ts';
import { useJobEvents } from '../api/job-events.ts';
import { modelQuery } from '../api/models.ts';
import { type Fact, Facts } from '../components/facts.tsx';
import { Fault } from '../components/fault.tsx';
import { Notice } from '../components/notice.tsx';
import { counted, formatCount, formatDuration, formatValue } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { Words } from '../components/words.tsx';
import { JobControls } from './job-controls.tsx';
import { JobCharts } from './job-charts.tsx';
import { JobEvents } from './job-events.tsx';
import { JobProgress } from './job-progress.tsx';
import { JobSettings } from './job-settings.tsx';
import { isLive, jobState, KIND_WORDS } from './job-state.ts';
import { Warnings } from './warnings.tsx';
import { heldOutWords } from './held-out-words.ts';
import { shownName } from '../components/shown-name.ts';

/** One training job: its progress, the outcomes of its groups and its events. */
export function JobPage({ jobId }: { jobId: string }) {
  const events = useJobEvents(jobId);
  const { data: job, error } = useQuery(jobQuery(jobId));
  const { data: model } = useQuery({ ...modelQuery(job?.model_id ?? ''), enabled: job !== undefined });
  const title = `Job ${jobId.slice(0, 8)}`;
  if (job === undefined) return <Page title={title}>{error === null ? null : <Fault error={error} />}</Page>;
  const state = jobState(job);
  const reward = events.map(({ data }) => data['reward']).find((value) => typeof value === 'number');
  const facts: Fact[] = [
    { name: 'State', value: <StatusDot tone={state.tone}>{state.text}</StatusDot> },
    { name: 'Kind', value: KIND_WORDS[job.kind] },
    { name: 'Gradient steps', value: <JobProgress job={job} /> },
    { name: 'Starts from step', value: job.start_step ?? '–' },
    ...(reward === undefined ? [] : [{ name: 'Reward', value: formatValue(reward, 3) }]),
    { name: 'Submitted', value: <Ago at={job.created_at} /> },
    ...(job.started_at === null || job.finished_at === null
      ? []
      : [{ name: 'Took', value: formatDuration(job.finished_at - job.started_at) }]),
  ];
  return (
    <Page
      title={title}
      path={
        model === undefined ? (
          <Link href="/jobs">Jobs</Link>
        ) : (
          <>
            <Link href="/models">Models</Link> /{' '}
            <Link href={`/models/${encodeURIComponent(model.id)}/jobs`}>{shownName(model.name)}</Link>
          </>
        )
      }
      actions={<JobControls job={job} />}
    >
      <Facts facts={facts} />
      {job.error_message === null ? null : (
        <Notice tone={job.status === 'cancelled' ? 'plain' : 'bad'}>
          <span>
            <Words text={job.error_message} />
          </span>
        </Notice>
      )}
      <Warnings warnings={job.warnings} />
      <JobCharts events={events} />
      <div className="job-columns">
        <section>
          <h2>Events</h2>
          <JobEvents events={events} status={job.status} />
        </section>
        <section>
          <JobData job={job} />
          <JobSettings job={job} />
        </section>
      </div>
    </Page>
  );
}

/** Data of a job: groups by outcome, or a file of conversations. */
function JobData({ job }: { job: TrainingJobObject }) {
  if (job.kind === 'rl')
    return (
      <>
        <h2>Rollouts</h2>
        <RolloutsLink job={job} />
        <Outcomes job={job} />
      </>
    );
  const dropped = Object.entries((job.counts?.['dropped_trajectories'] ?? {}) as Record<string, number>);
  return (
    <>
      <h2>Conversations</h2>
      <dl className="config-list">
        {job.training_data === null ? null : (
          <>
            <dt>file</dt>
            <dd className="mono">{shownName(job.training_data.url)}</dd>
            <dt>lines</dt>
            <dd>{formatCount(job.training_data.num_lines)}</dd>
            {job.training_data.held_out === null ? null : (
              <>
                <dt>held out</dt>
                <dd>{heldOutWords(job.training_data.held_out)}</dd>
              </>
            )}
          </>
        )}
        {dropped.map(([reason, count]) =>
          count === 0 ? null : (
            <div key={reason} style={{ display: 'contents' }}>
              <dt>not trained: {reason.replaceAll('_', ' ')}</dt>
              <dd>{formatCount(count)}</dd>
            </div>
          ),
        )}
      </dl>
    </>
  );
}

/** The rollouts of a job, by number. */
function RolloutsLink({ job: { id, model_id: modelId, counts, start_step: step } }: { job: TrainingJobObject }) {
  const rollouts = counts?.['num_trajectories_submitted'];
  const groups = counts?.['num_groups_submitted'];
  if (typeof groups !== 'number') return null;
  const query = new URLSearchParams({ split: 'train', job: id, ...(step === null ? {} : { step: String(step) }) });
  const words = typeof rollouts === 'number' ? `${counted(rollouts, 'rollout')} in ` : '';
  return (
    <p>
      <Link href={`/models/${encodeURIComponent(modelId)}/rollouts?${query}`}>
        {words}
        {counted(groups, 'group')} →
      </Link>
    </p>
  );
}

/** Number of groups per outcome; null before the job has started. */
function Outcomes({ job }: { job: TrainingJobObject }) {
  const { group_outcomes: outcomes, status } = job;
  if (outcomes === null)
    return (
      <p className="soft">{isLive(job) ? 'Available once the job starts.' : 'The job ended before it started.'}</p>
    );
  const counts = new Map<string, number>();
  for (const outcome of outcomes) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return (
    <dl className="config-list">
      {[...counts].map(([outcome, count]) => (
        <div key={outcome} style={{ display: 'contents' }}>
          <dt>{outcome === 'trained' && status !== 'succeeded' ? 'for training' : outcome.replaceAll('_', ' ')}</dt>
          <dd>{counted(count, 'group')}</dd>
        </div>
      ))}
    </dl>
  );
}
