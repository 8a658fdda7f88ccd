// The moves of a job that touch several tables: queued → running → succeeded | failed | cancelled. Each runs inside one transaction.
import assert from 'node:assert/strict';
import type { Checkpoint, ClaimedJob, Job } from '../records.ts';
import type { CancelJobResult, FinishedJob, JobControlResult, JobOutcome } from '../store.ts';
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
  tables.events.append(jobId, 'training_ended', outcome.data ?? {}, null, now);
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

/** The job goes back to the queue, or stays there, and is not claimed until it is resumed. */
export function pauseJob(tables: Tables, jobId: string, now: number): JobControlResult | null {
  const job = tables.jobs.get(jobId);
  if (job === null) return null;
  return job.finishedAt === null ? { kind: 'done', job: tables.jobs.pause(jobId, now) } : { kind: 'finished', job };
}

export function resumeJob(tables: Tables, jobId: string): JobControlResult | null {
  const job = tables.jobs.get(jobId);
  if (job === null) return null;
  return job.finishedAt === null ? { kind: 'done', job: tables.jobs.resume(jobId) } : { kind: 'finished', job };
}

/** @throws {StoreError} `store.lease_lost` */
export function keepReference(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  step: number,
): { artifactKey: string | null } | null {
  const { modelId } = tables.jobs.held(jobId, fencingToken);
  const kept = tables.jobs.referenceOf(jobId);
  if (kept !== null) return { artifactKey: kept };
  const checkpoint = tables.checkpoints.get(modelId, step);
  if (checkpoint?.artifactKey != null) tables.jobs.setReference(jobId, checkpoint.artifactKey);
  return checkpoint;
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
  const keys = [job.start?.artifactKey ?? null, tables.jobs.referenceOf(job.id)];
  return { job, artifactKeys: tables.checkpoints.unreferenced(keys) };
}
