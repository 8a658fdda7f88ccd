// Transitions of a job that touch several tables: queued → running → succeeded | failed | cancelled. Each
// runs inside one transaction.
import assert from 'node:assert/strict';
import { StoreError } from '../../contract/errors.ts';
import type { Checkpoint } from '../checkpoints/checkpoints.ts';
import type {
  CancelJobResult,
  ClaimedJob,
  FinishedJob,
  Job,
  JobControlResult,
  JobKind,
  JobOutcome,
  JobSnapshot,
  NewEvent,
  NewJob,
  RetriedJob,
  RetryJobResult,
  TrainingJob,
} from './jobs.ts';
import type { FeedType } from '../feed/feed.ts';
import { refuseArchived } from './refuse-archived.ts';
import type { Metrics } from '../runs/runs.ts';
import type { JobInput, WantedJobs } from './job-table.ts';
import type { Tables } from '../tables.ts';

/** Prefix of the snapshot keys of all jobs. */
export const SNAPSHOTS = 'snapshots/';

/** Kinds of jobs that make steps of a model. */
export const TRAINING_JOB_KINDS = ['rl', 'sft'] as const;

export function isTrainingJob(job: Job): job is TrainingJob {
  return job.kind === 'rl' || job.kind === 'sft';
}

export async function enqueueJob(tables: Tables, input: NewJob, now: number): Promise<TrainingJob | null> {
  const { modelId, maxLive, referenceStep } = input;
  const model = await tables.models.get(modelId);
  if (model === null) return null;
  refuseArchived(model);
  await refuseWhenFull(tables, TRAINING_JOB_KINDS, modelId, maxLive);
  const job = await insertJob(
    tables,
    { ...input, entityId: model.entityId, turn: modelId, baseModel: model.baseModel },
    now,
  );
  const step = (await tables.checkpoints.latest(modelId))?.step ?? model.nextStep - 1;
  const set = { id: job.id, modelId, jobId: job.id, split: 'train', step };
  await tables.trajectories.insert(set, input.rewards ?? [], input.contents ?? null);
  const reference = await tables.checkpoints.get(modelId, referenceStep ?? -1);
  if (reference?.directoryKey != null) await tables.jobs.setReference(job.id, reference.directoryKey);
  return job as TrainingJob;
}

export async function insertJob(tables: Tables, input: JobInput, now: number): Promise<Job> {
  const job = await tables.jobs.insert(input, now);
  await reportJob(tables, job, { type: 'job_queued' }, now);
  return job;
}

async function reportJob(
  tables: Tables,
  job: Job,
  { type, data = {} }: { type: FeedType; data?: object },
  now: number,
): Promise<void> {
  const { entityId, modelId, id: jobId, kind } = job;
  await tables.feed.add({ type, entityId, modelId, jobId, data: { kind, ...data } }, now);
}

/** @throws {StoreError} `store.queue_full` if one more would exceed the limit */
export async function refuseWhenFull(
  tables: Tables,
  kinds: readonly JobKind[],
  modelId: string | null,
  maxLive = Infinity,
): Promise<void> {
  const numLive = maxLive === Infinity ? 0 : await tables.jobs.countLive(kinds, modelId);
  if (numLive < maxLive) return;
  throw new StoreError('store.queue_full', `${numLive} jobs of the kinds ${kinds.join(', ')} are queued or running`);
}

export async function claimNextJob(
  tables: Tables,
  { workerId, leaseMs }: { readonly workerId: string; readonly leaseMs: number },
  wanted: WantedJobs,
  now: number,
): Promise<ClaimedJob<Job> | null> {
  const job = await tables.jobs.claim(workerId, now + leaseMs, wanted, now);
  // Fencing tokens are never reset: 1 is the first claim.
  if (job?.fencingToken === 1) await reportJob(tables, job, { type: 'job_started' }, now);
  else if (job !== null) await reportJob(tables, job, { type: 'job_resumed', data: { status: job.status } }, now);
  // A job taken over from another worker keeps its start, or its resumed steps would belong to other weights.
  if (job === null || job.start !== null || !isTrainingJob(job)) return job;
  const latest = await tables.checkpoints.latest(job.modelId);
  if (latest === null) return job;
  const start = { step: latest.step, directoryKey: latest.directoryKey, digest: latest.digest };
  await tables.jobs.setStart(job.id, start);
  // Earlier jobs in the queue have made steps meanwhile.
  await tables.trajectories.setStep(job.id, start.step);
  return { ...job, start };
}

/**
 * Applies the other effects of a new `gradient_step` event: resets the attempts, charges the tokens to the
 * key, and adds a point of each metric to the run.
 */
export async function gradientStepTaken(
  tables: Tables,
  job: Job,
  { metrics = {}, rolloutMetrics = {}, usage }: Pick<NewEvent, 'metrics' | 'rolloutMetrics' | 'usage'>,
  now: number,
): Promise<void> {
  await tables.jobs.forgetEarlierAttempts(job.id);
  if (job.modelId === null) return;
  const { keyId, entityId, origin } = job;
  if (usage !== undefined && keyId !== null) {
    const model = fullName(await tables.models.get(job.modelId));
    await tables.usage.insert({ ...usage, keyId, entityId, project: origin.project, model, kind: 'training' }, now);
  }
  // Not the start's step plus one: numbers of deleted checkpoints stay taken.
  const { nextStep: step, numGradientSteps } = await tables.models.countGradientStep(job.modelId);
  const gradientStep = numGradientSteps - 1;
  await tables.metrics.append(job.modelId, metrics, { step, gradientStep, job: job.position }, now);
  const place = { step: rolloutStep(job, step), gradientStep, job: job.position };
  await tables.metrics.append(job.modelId, rolloutMetrics, place, now);
}

/** Adds the points of a `held_out` event: of the weights after the gradient steps that the model has so far. */
export async function heldOutMeasured(tables: Tables, job: Job, metrics: Metrics, now: number): Promise<void> {
  const model = job.modelId === null ? null : await tables.models.get(job.modelId);
  if (model === null) return;
  const { id, nextStep: step, numGradientSteps: gradientStep } = model;
  await tables.metrics.append(id, metrics, { step, gradientStep, job: job.position }, now);
}

/** Step from which a job's rollouts were sampled. @param nextStep the step that the job makes */
function rolloutStep({ start }: Job, nextStep: number): number {
  return start?.step ?? nextStep - 1;
}

function fullName(model: { entity: string; project: string; name: string } | null): string {
  assert(model !== null, 'a live job has a model: deleting the model ends its jobs');
  return `${model.entity}/${model.project}/${model.name}`;
}

/** A claimed job, as its worker names it. */
export interface HeldJob {
  readonly jobId: string;
  readonly fencingToken: number;
}

/** @throws {StoreError} `store.lease_lost` */
export async function finishJobSucceeded(
  tables: Tables,
  { jobId, fencingToken }: HeldJob,
  outcome: JobOutcome,
  now: number,
): Promise<FinishedJob & { checkpoint: Checkpoint }> {
  const held = await tables.jobs.held(jobId, fencingToken);
  assert(isTrainingJob(held), 'jobs that train nothing end by methods of their own');
  const { modelId, start } = held;
  const model = await tables.models.get(modelId);
  assert(model !== null, 'a live job has a model: deleting the model ends its jobs');
  const artifact = outcome.directoryKey === null ? start : outcome;
  const directoryKey = artifact?.directoryKey ?? null;
  const digest = artifact?.digest ?? null;
  const checkpoint = await tables.checkpoints.insert(
    { modelId, step: model.nextStep, jobId, directoryKey, digest, metrics: outcome.metrics },
    now,
  );
  const place = { step: rolloutStep(held, model.nextStep), gradientStep: null, job: null };
  await tables.metrics.append(modelId, outcome.rolloutMetrics ?? {}, place, now);
  await tables.models.advanceStep(modelId);
  const data = { step: checkpoint.step };
  await tables.feed.add({ type: 'checkpoint_created', entityId: model.entityId, modelId, jobId, data }, now);
  await tables.events.append(jobId, { type: 'training_ended', data: { ...outcome.data, ...data } }, now);
  return { ...(await finished(tables, await tables.jobs.end(held, 'succeeded', null, now))), checkpoint };
}

/** @throws {StoreError} `store.lease_lost` */
export async function finishJobFailed(
  tables: Tables,
  { jobId, fencingToken }: HeldJob,
  failure: JobFailure,
  now: number,
): Promise<FinishedJob> {
  const held = await tables.jobs.held(jobId, fencingToken);
  return await finished(tables, await endWithFailure(tables, held, { status: 'failed', ...failure }, now));
}

export async function endSucceeded(tables: Tables, job: Job, now: number): Promise<FinishedJob> {
  await tables.events.append(job.id, { type: 'job_ended', data: {} }, now);
  return await finished(tables, await tables.jobs.end(job, 'succeeded', null, now));
}

/** Reason in words, and further data of the event. */
export interface JobFailure {
  errorMessage: string;
  data?: object;
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
    ...(await finished(
      tables,
      await endWithFailure(tables, before, { status: 'cancelled', errorMessage: reason }, now),
    )),
  };
}

export async function retryJob(
  tables: Tables,
  jobId: string,
  input: RetriedJob,
  now: number,
): Promise<RetryJobResult | null> {
  const before = await tables.jobs.get(jobId);
  if (before === null || !isTrainingJob(before)) return null;
  if (before.finishedAt === null) return { kind: 'live', job: before };
  if (before.status === 'succeeded') return { kind: 'succeeded', job: before };
  const { modelId, kind, config, dataKey } = before;
  if (!(await tables.jobs.data.has(dataKey))) return { kind: 'data_removed', job: before };
  const job = await enqueueJob(tables, { ...input, modelId, kind, config, dataKey }, now);
  if (job === null) return null;
  await tables.trajectories.copySet(jobId, job.id, job.modelId);
  return { kind: 'queued', job };
}

/** Returns the job to the queue, or leaves it there; it is not claimed until it is resumed. */
export async function pauseJob(tables: Tables, jobId: string, now: number): Promise<JobControlResult | null> {
  const job = await tables.jobs.get(jobId);
  if (job === null) return null;
  if (job.finishedAt !== null) return { kind: 'finished', job };
  if (job.pausedAt === null) await reportJob(tables, job, { type: 'job_paused' }, now);
  return { kind: 'done', job: await tables.jobs.pause(jobId, now) };
}

export async function resumeJob(tables: Tables, jobId: string, now: number): Promise<JobControlResult | null> {
  const job = await tables.jobs.get(jobId);
  if (job === null) return null;
  if (job.finishedAt !== null) return { kind: 'finished', job };
  if (job.pausedAt !== null) await reportJob(tables, job, { type: 'job_resumed', data: { status: job.status } }, now);
  return { kind: 'done', job: await tables.jobs.resume(jobId) };
}

/** @throws {StoreError} `store.lease_lost` */
export async function keepReference(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  step: number,
): Promise<{ directoryKey: string | null } | null> {
  const held = await tables.jobs.held(jobId, fencingToken);
  assert(isTrainingJob(held), 'only training compares with a reference');
  const { modelId } = held;
  const kept = await tables.jobs.referenceOf(jobId);
  if (kept !== null) return { directoryKey: kept };
  const checkpoint = await tables.checkpoints.get(modelId, step);
  if (checkpoint?.directoryKey != null) await tables.jobs.setReference(jobId, checkpoint.directoryKey);
  return checkpoint;
}

/** @throws {StoreError} `store.lease_lost` */
export async function keepSnapshot(
  tables: Tables,
  jobId: string,
  fencingToken: number,
  snapshot: JobSnapshot,
): Promise<{ replacedKeys: string[] }> {
  const held = await tables.jobs.held(jobId, fencingToken);
  assert(isTrainingJob(held), 'only training has snapshots');
  assert(snapshot.directoryKey.startsWith(snapshotsOf(jobId)), 'its key identifies its owner');
  await tables.jobs.setSnapshot(jobId, snapshot);
  const former = [held.snapshot?.directoryKey ?? null, ...(await tables.announcedKeys.take(snapshotsOf(jobId)))];
  return { replacedKeys: await tables.checkpoints.unreferenced(former) };
}

/**
 * Prefix of the keys of a job's snapshots. Keys announced under it but never named are found at the next
 * snapshot or the end of the job.
 */
export const snapshotsOf = (jobId: string): string => `${SNAPSHOTS}${jobId}/`;

/** Directories needed only by this ended job: its start, its reference, and its snapshots. */
export async function directoriesOf(tables: Tables, { id, start, snapshot }: Job): Promise<(string | null)[]> {
  const reference = await tables.jobs.referenceOf(id);
  const copied = await tables.announcedKeys.take(snapshotsOf(id));
  return [start?.directoryKey ?? null, reference, snapshot?.directoryKey ?? null, ...copied];
}

export async function cancelLiveJobs(tables: Tables, modelId: string, reason: string, now: number): Promise<Job[]> {
  const cancelled: Job[] = [];
  for (const job of await tables.jobs.listLive(modelId))
    cancelled.push(await endWithFailure(tables, job, { status: 'cancelled', errorMessage: reason }, now));
  return cancelled;
}

async function endWithFailure(
  tables: Tables,
  job: Job,
  { status, errorMessage, data }: JobFailure & { status: 'failed' | 'cancelled' },
  now: number,
): Promise<Job> {
  const type = isTrainingJob(job) ? 'training_failed' : 'job_failed';
  await tables.events.append(job.id, { type, data: { ...data, error_message: errorMessage } }, now);
  return await tables.jobs.end(job, status, errorMessage, now);
}

async function finished(tables: Tables, job: Job): Promise<FinishedJob> {
  return { job, directoryKeys: await tables.checkpoints.unreferenced(await directoriesOf(tables, job)) };
}
