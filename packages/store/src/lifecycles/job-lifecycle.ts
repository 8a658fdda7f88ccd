// The moves of a job that touch several tables: queued → running → succeeded | failed | cancelled. Each runs inside one transaction.
import assert from 'node:assert/strict';
import type { Checkpoint, ClaimedJob, Job } from '../contract/records.ts';
import type { CancelJobResult, FinishedJob, JobControlResult, JobOutcome } from '../contract/store.ts';
import type { Tables } from '../tables/tables.ts';

export async function claimNextJob(
  tables: Tables,
  workerId: string,
  leaseMs: number,
  now: number,
): Promise<ClaimedJob | null> {
  const job = await tables.jobs.claim(workerId, now + leaseMs, now);
  // A job taken over from another worker keeps its start, or its resumed steps would belong to other weights.
  if (job === null || job.start !== null) return job;
  const latest = await tables.checkpoints.latest(job.modelId);
  if (latest === null) return job;
  const start = { step: latest.step, artifactKey: latest.artifactKey, digest: latest.digest };
  await tables.jobs.setStart(job.id, start);
  return { ...job, start };
}

/** @throws {StoreError} `store.lease_lost` */
export async function finishJobSucceeded(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  outcome: JobOutcome,
  now: number,
): Promise<FinishedJob & { checkpoint: Checkpoint }> {
  const held = await tables.jobs.held(jobId, fencingToken);
  const { modelId, start } = held;
  const model = await tables.models.get(modelId);
  assert(model !== null, 'a live job has a model: deleting the model ends its jobs');
  const artifact = outcome.artifactKey === null ? start : outcome;
  const artifactKey = artifact?.artifactKey ?? null;
  const digest = artifact?.digest ?? null;
  const checkpoint = await tables.checkpoints.insert(
    { modelId, step: model.nextStep, jobId, artifactKey, digest, metrics: outcome.metrics },
    now,
  );
  await tables.models.advanceStep(modelId);
  await tables.events.append(jobId, 'training_ended', outcome.data ?? {}, null, now);
  return { ...(await finished(tables, await tables.jobs.end(held, 'succeeded', null, now))), checkpoint };
}

/** @throws {StoreError} `store.lease_lost` */
export async function finishJobFailed(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  errorMessage: string,
  now: number,
): Promise<FinishedJob> {
  const held = await tables.jobs.held(jobId, fencingToken);
  return await finished(tables, await endWithFailure(tables, held, 'failed', errorMessage, now));
}

export async function cancelJob(
  tables: Tables,
  jobId: string,
  reason: string,
  now: number,
): Promise<CancelJobResult | null> {
  const before = await tables.jobs.get(jobId);
  if (before === null) return null;
  if (before.finishedAt !== null) return { kind: 'finished', job: before };
  return {
    kind: 'cancelled',
    ...(await finished(tables, await endWithFailure(tables, before, 'cancelled', reason, now))),
  };
}

/** The job goes back to the queue, or stays there, and is not claimed until it is resumed. */
export async function pauseJob(tables: Tables, jobId: string, now: number): Promise<JobControlResult | null> {
  const job = await tables.jobs.get(jobId);
  if (job === null) return null;
  return job.finishedAt === null
    ? { kind: 'done', job: await tables.jobs.pause(jobId, now) }
    : { kind: 'finished', job };
}

export async function resumeJob(tables: Tables, jobId: string): Promise<JobControlResult | null> {
  const job = await tables.jobs.get(jobId);
  if (job === null) return null;
  return job.finishedAt === null ? { kind: 'done', job: await tables.jobs.resume(jobId) } : { kind: 'finished', job };
}

/** @throws {StoreError} `store.lease_lost` */
export async function keepReference(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  step: number,
): Promise<{ artifactKey: string | null } | null> {
  const { modelId } = await tables.jobs.held(jobId, fencingToken);
  const kept = await tables.jobs.referenceOf(jobId);
  if (kept !== null) return { artifactKey: kept };
  const checkpoint = await tables.checkpoints.get(modelId, step);
  if (checkpoint?.artifactKey != null) await tables.jobs.setReference(jobId, checkpoint.artifactKey);
  return checkpoint;
}

/** Cancels whatever of the model is queued or running. */
export async function cancelLiveJobs(tables: Tables, modelId: string, reason: string, now: number): Promise<Job[]> {
  const cancelled: Job[] = [];
  for (const job of await tables.jobs.listLive(modelId))
    cancelled.push(await endWithFailure(tables, job, 'cancelled', reason, now));
  return cancelled;
}

async function endWithFailure(
  tables: Tables,
  job: Job,
  status: 'failed' | 'cancelled',
  errorMessage: string,
  now: number,
): Promise<Job> {
  await tables.events.append(job.id, 'training_failed', { error_message: errorMessage }, null, now);
  return await tables.jobs.end(job, status, errorMessage, now);
}

async function finished(tables: Tables, job: Job): Promise<FinishedJob> {
  const keys = [job.start?.artifactKey ?? null, await tables.jobs.referenceOf(job.id)];
  return { job, artifactKeys: await tables.checkpoints.unreferenced(keys) };
}
