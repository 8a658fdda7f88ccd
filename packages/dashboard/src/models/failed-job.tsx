import '../components/card.css';
import './failed-job.css';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { retryJob } from '../api/jobs.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { shownName } from '../components/shown-name.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { plainReason } from './plain-reason.ts';

/** The last job of a model, if it failed: the reason, the job, and the same again. Nothing for another job. */
export function FailedJob({ job }: { job: ModelDetailsObject['last_job'] }) {
  if (job === null || job.status !== 'failed') return null;
  return (
    <section className="card failed-job" aria-label="Failed job">
      <div>
        <StatusDot tone="bad">last job failed</StatusDot>{' '}
        <small className="soft">
          <Ago at={job.finished_at} />
        </small>
      </div>
      <p>{shownName(plainReason(job.error_message))}</p>
      <div className="failed-job-actions">
        <Link href={`/jobs/${encodeURIComponent(job.id)}`}>Open job</Link>
        <ActionButton onAct={async () => void (await retryJob(job.id))}>Try again</ActionButton>
        <small className="soft">with the same data and settings</small>
      </div>
    </section>
  );
}
