import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type JobWarningObject,
  type ListPage,
  type PageQuery,
  PageQuerySchema,
  type TrainingJobObject,
  type TrainingJobPageQuery,
  TrainingJobPageQuerySchema,
} from '@trainyard/protocol';
import { type IdempotentAnswer, isTrainingJob, type Job, type TrainingJob } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce } from '../../answers/idempotency.ts';
import { toListPage } from '../../answers/paging.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { toJobObject } from '../../../training-data/wire/training-job.ts';
import { removeFiles } from '../files.ts';
import { traceJobStopped } from '../../../seams/tracing/job-trace.ts';
import { notFound, ownedJob, ownedModel } from '../owned.ts';
import { type TrainedBaseModels, trainedBaseModels } from '../../../seams/contract/trained-base-models.ts';
import { waitingFor } from './waiting-for.ts';

const CANCELLED = 'the job was cancelled by a client (trainer.cancelled)';

/**
 * GET /v1/preview/training-jobs and /v1/preview/training-jobs/{job_id}, POST …/cancel, …/pause and …/resume,
 * and GET /v1/preview/models/{model_id}/training-jobs. The store changes first, so that a crash right
 * afterwards leaves the job as requested.
 */
export function trainingJobControlRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, training } = parts;
  type JobRoute = { Params: { job_id: string } };

  app.get<JobRoute>('/v1/preview/training-jobs/:job_id', { config: { scope: 'training' } }, async (request) =>
    describe(
      parts,
      await ownedJob(request, parts, request.params.job_id),
      await trainedBaseModels(store, training.baseModels),
    ),
  );

  app.get<{ Params: { model_id: string }; Querystring: PageQuery }>(
    '/v1/preview/models/:model_id/training-jobs',
    { config: { scope: 'training' }, schema: { querystring: PageQuerySchema } },
    async (request): Promise<ListPage<TrainingJobObject>> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const { items, hasMore } = await store.jobs.list({ ...request.query, modelId: model.id });
      const trained = await trainedBaseModels(store, training.baseModels);
      const described = await Promise.all(items.map((job) => describe(parts, job, trained)));
      return toListPage({ items: described, hasMore }, (job) => job);
    },
  );

  app.get<{ Querystring: TrainingJobPageQuery }>(
    '/v1/preview/training-jobs',
    { config: { scope: 'training' }, schema: { querystring: TrainingJobPageQuerySchema } },
    async (request): Promise<ListPage<TrainingJobObject>> => {
      const { model_id: modelId, ...query } = request.query;
      const { entityId } = callerOf(request);
      const ofModel = modelId === undefined ? {} : { modelId };
      const { items, hasMore } = await store.jobs.list({ ...query, ...ofModel, entityId });
      const trained = await trainedBaseModels(store, training.baseModels);
      const described = await Promise.all(items.map((job) => describe(parts, job, trained)));
      return toListPage({ items: described, hasMore }, (job) => job);
    },
  );

  /**
   * Not awaited: the answer is already true, and a host that is loading a model may react only after seconds.
   */
  function releaseJob(jobId: string): void {
    training.stopJob(jobId).catch((error: unknown) => parts.log(`job ${jobId}: ${String(error)}`));
  }

  type Keeps = (result: { kind: string; job: Job }) => IdempotentAnswer | undefined;
  const actions: Record<string, (job: TrainingJob, keeps: Keeps) => Promise<TrainingJob>> = {
    cancel: async (job, keeps) => {
      const result = existing(await store.jobs.cancel(job.id, CANCELLED, keeps), job.id);
      if (result.kind === 'finished') {
        if (result.job.status === 'cancelled') return result.job;
        throw ended(result.job, 'cancelled');
      }
      // A worker that has the job ends its trace.
      if (job.lease === null) traceJobStopped(parts.tracing, job);
      releaseJob(job.id);
      await removeFiles(parts, result);
      return result.job;
    },
    pause: async (job, keeps) => {
      const result = existing(await store.jobs.pause(job.id, keeps), job.id);
      if (result.kind === 'finished') throw ended(result.job, 'paused');
      releaseJob(job.id);
      return result.job;
    },
    resume: async (job, keeps) => {
      const result = existing(await store.jobs.resume(job.id, keeps), job.id);
      if (result.kind === 'finished') throw ended(result.job, 'resumed');
      training.notify();
      return result.job;
    },
  };
  for (const [name, act] of Object.entries(actions)) {
    app.post<JobRoute>(
      `/v1/preview/training-jobs/:job_id/${name}`,
      { config: { scope: 'training' } },
      (request: FastifyRequest<JobRoute>, reply) =>
        answerOnce(store, request, reply, async (completes) => {
          const job = await ownedJob(request, parts, request.params.job_id);
          // Built before the effect, because the answer is stored with it: otherwise a repeated pause would
          // hold a job that was resumed since.
          const toAnswer = await describer(parts, job, await trainedBaseModels(store, training.baseModels));
          return toAnswer(
            await act(job, (result) =>
              result.kind === 'finished' || !isTrainingJob(result.job) ? undefined : completes(toAnswer(result.job)),
            ),
          );
        }),
    );
  }
}

async function describe(
  parts: Pick<RouteParts, 'store' | 'hub'>,
  job: TrainingJob,
  trained: TrainedBaseModels,
): Promise<TrainingJobObject> {
  return (await describer(parts, job, trained))(job);
}

/** Reads a job's events now, and returns a function that describes the job later. */
async function describer(
  { store, hub }: Pick<RouteParts, 'store' | 'hub'>,
  job: TrainingJob,
  trained: TrainedBaseModels,
): Promise<(job: TrainingJob) => TrainingJobObject> {
  const first =
    job.startedAt === null ? null : await store.jobs.listEvents({ jobId: job.id, type: 'training_started', limit: 1 });
  const started = first?.items[0]?.data ?? null;
  const numGradientSteps = started === null ? 0 : await store.jobs.countEvents(job.id, 'gradient_step');
  const warnings =
    job.startedAt === null ? null : await store.jobs.listEvents({ jobId: job.id, type: 'warning', limit: 100 });
  return (then) =>
    toJobObject(then, {
      started,
      numGradientSteps,
      waitingFor: waitingFor(then, trained, hub),
      warnings: warnings?.items.map(({ data }) => data as JobWarningObject) ?? [],
    });
}

function existing<Result extends { job: Job }>(result: Result | null, jobId: string): Result & { job: TrainingJob } {
  if (result === null || !isTrainingJob(result.job)) throw notFound('training job', jobId, 'job_id');
  return result as Result & { job: TrainingJob };
}

function ended(job: Job, verb: string): RequestError {
  return new RequestError(
    'request.job_ended',
    `The training job ${job.status === 'cancelled' ? 'was' : 'has'} ${job.status} and can no longer be ${verb}`,
    {
      param: 'job_id',
    },
  );
}
