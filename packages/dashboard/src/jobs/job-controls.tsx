import type { TrainingJobObject } from '@trainyard/sdk';

import { controlJob } from '../api/jobs.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { isLive } from './job-state.ts';

/** Pause, resume and cancel; nothing for a job that has ended. */
export function JobControls({ job }: { job: TrainingJobObject }) {
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
