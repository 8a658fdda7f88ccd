// The moves of a job that touch several tables: queued → running → succeeded | failed | cancelled. Each runs inside one transaction.
import assert from 'node:assert/strict';
import type { Checkpoint, ClaimedJob, Job } from '../records.ts';
import type { CancelJobResult, FinishedJob, JobOutcome } from '../store.ts';
import type { Tables } from './tables.ts';

export function claimNextJob(tables: Tables, workerId: string, leaseMs: number, now: number): ClaimedJob | null {
  const job = tables.jobs.claim(workerId, now + leaseMs, now);
  // A job taken over from another worker keeps its start, or its resumed steps would belong to other weights.
  if (job === null || job.start !== null) return job;
  const latest = tables.checkpoints.latest(job.modelId);
  if (latest === null) return job;
  const start = { step: latest.step, artifactKey: latest.artifactKey, digest: latest.digest };
  tables.jobs.setStart(job.id, start);
  return { ...job, start };
}

/** @throws {StoreError} `store.lease_lost` */
export function finishJobSucceeded(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  outcome: JobOutcome,
  now: number,
): FinishedJob & { checkpoint: Checkpoint } {
  const { modelId, start } = tables.jobs.held(jobId, fencingToken);
  const model = tables.models.get(modelId);
  assert(model !== null, 'a live job has a model: deleting the model ends its jobs');
  const artifact = outcome.artifactKey === null ? start : outcome;
  const artifactKey = artifact?.artifactKey ?? null;
  const digest = artifact?.digest ?? null;
  const checkpoint = tables.checkpoints.insert(
    { modelId, step: model.nextStep, jobId, artifactKey, digest, metrics: outcome.metrics },
    now,
  );
  tables.models.advanceStep(modelId);
  tables.events.append(jobId, 'training_ended', {}, null, now);
  return { ...finished(tables, tables.jobs.end(jobId, 'succeeded', null, now)), checkpoint };
}

/** @throws {StoreError} `store.lease_lost` */
export function finishJobFailed(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  errorMessage: string,
  now: number,
): FinishedJob {
  tables.jobs.held(jobId, fencingToken);
  return finished(tables, endWithFailure(tables, jobId, 'failed', errorMessage, now));
}

export function cancelJob(tables: Tables, jobId: string, reason: string, now: number): CancelJobResult | null {
  const before = tables.jobs.get(jobId);
  if (before === null) return null;
  if (before.finishedAt !== null) return { kind: 'finished', job: before };
  return { kind: 'cancelled', ...finished(tables, endWithFailure(tables, jobId, 'cancelled', reason, now)) };
}

/** Cancels whatever of the model is queued or running. */
export function cancelLiveJobs(tables: Tables, modelId: string, reason: string, now: number): Job[] {
  return tables.jobs.listLive(modelId).map((job) => endWithFailure(tables, job.id, 'cancelled', reason, now));
}

function endWithFailure(
  tables: Tables,
  jobId: string,
  status: 'failed' | 'cancelled',
  errorMessage: string,
  now: number,
): Job {
  tables.events.append(jobId, 'training_failed', { error_message: errorMessage }, null, now);
  return tables.jobs.end(jobId, status, errorMessage, now);
}

function finished(tables: Tables, job: Job): FinishedJob {
  return { job, artifactKeys: tables.checkpoints.unreferenced([job.start?.artifactKey ?? null]) };
}
