import type { TrainingJobObject } from '@trainyard/sdk';
import { useLocation } from 'wouter';

import { controlJob, retryJob } from '../api/jobs.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { isLive } from './job-state.ts';

/** Pause, resume and cancel; the same again for a job that failed or was cancelled. */
export function JobControls({ job }: { job: TrainingJobObject }) {
  const [, navigate] = useLocation();
  if (job.status === 'failed' || job.status === 'cancelled')
    return (
      <ActionButton
        title="With the same data and settings"
        onAct={async () => navigate(`/jobs/${encodeURIComponent(await retryJob(job.id))}`)}
      >
        Try again
      </ActionButton>
    );
  if (!isLive(job)) return null;
  return (
    <>
      {job.is_paused ? (
        <ActionButton onAct={() => controlJob(job.id, 'resume')}>Resume</ActionButton>
      ) : (
        <ActionButton onAct={() => controlJob(job.id, 'pause')}>Pause</ActionButton>
      )}
      <ConfirmButton
        label="Cancel job"
        look="danger"
        question="Cancel this job?"
        explanation="The job ends now, and the model stays at its last step. Its progress is lost; pausing keeps it."
        onConfirm={() => controlJob(job.id, 'cancel')}
      />
    </>
  );
}
