import { useQuery } from '@tanstack/react-query';
import type { TrainingJobObject } from '@trainyard/sdk';

import { queueQuery } from '../api/jobs.ts';
import { formatDuration } from '../components/numbers.ts';
import { Progress } from '../components/progress.tsx';
import { useNow } from '../components/use-now.ts';
import { isLive, secondsLeft, totalSteps } from './job-state.ts';

/** Progress of a job: gradient steps, time left, or its place in the queue. */
export function JobProgress({ job }: { job: TrainingJobObject }) {
  const now = useNow();
  const { data: queue } = useQuery({ ...queueQuery, enabled: isLive(job) });
  const total = totalSteps(job);
  const done = job.num_gradient_steps_done;
  if (!isLive(job)) return <span>{total === null ? done : `${done} of ${total}`}</span>;
  const left = secondsLeft(job, now);
  const ahead = queue?.data.find(({ id }) => id === job.id)?.num_ahead;
  const text =
    job.status === 'running'
      ? [`${done} of ${total ?? '?'}`, ...(left === null ? [] : [`about ${formatDuration(left)} left`])].join(' · ')
      : job.is_paused
        ? `paused after ${done}`
        : job.waiting_for?.code === 'base_model'
          ? job.waiting_for.message
          : ahead === undefined || ahead === 0
            ? 'next in the queue'
            : `${ahead} ahead in the queue`;
  return <Progress label="Gradient steps done" value={total === null || total === 0 ? 0 : done / total} text={text} />;
}
