import '../components/card.css';
import './jobs.css';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'wouter';

import { jobsQuery } from '../api/jobs.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { JobControls } from './job-controls.tsx';
import { JobProgress } from './job-progress.tsx';
import { isLive, jobState } from './job-state.ts';
import { Warnings } from './warnings.tsx';

/** Unfinished jobs of a model, and the warnings of the last one. */
export function LiveJobs({ modelId }: { modelId: string }) {
  const { data } = useInfiniteQuery(jobsQuery(modelId));
  const jobs = data?.pages[0]?.data ?? [];
  const live = jobs.filter(isLive);
  const last = live.at(-1) ?? jobs[0];
  if (last === undefined || (live.length === 0 && last.warnings.length === 0)) return null;
  return (
    <section className="live-jobs" aria-label="Unfinished jobs">
      {live.toReversed().map((job) => (
        <div key={job.id} className="card live-job">
          <StatusDot tone={jobState(job).tone}>{jobState(job).text}</StatusDot>
          <JobProgress job={job} />
          <Link href={`/jobs/${encodeURIComponent(job.id)}`}>Open job</Link>
          <span className="live-job-controls">
            <JobControls job={job} />
          </span>
        </div>
      ))}
      <Warnings warnings={last.warnings} isBrief />
    </section>
  );
}
