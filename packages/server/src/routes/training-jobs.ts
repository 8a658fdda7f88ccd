import { randomUUID } from 'node:crypto';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type ListPage,
  type EventPageQuery,
  EventPageQuerySchema,
  type TrainingEventObject,
  type TrainingEventType,
  type TrainingJobObject,
} from '@trainyard/protocol';
import type { Job, JobEvent } from '@trainyard/store';

import { callerOf } from '../auth.ts';
import {
  acceptTrajectoryBodies,
  trajectoryBodyOf,
  type TrajectoryBodyReader,
} from '../bodies/accept-trajectory-bodies.ts';
import type { TrajectoryBody } from '../bodies/trajectory-body.ts';
import { answerOnce, type Completes } from '../idempotency.ts';
import { toListPage } from '../paging.ts';
import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { checkReferenceStep } from '../wire/reference-step.ts';
import { type JobConfig, readJobConfig } from '../wire/training-config.ts';
import { toJobObject } from '../wire/training-job.ts';
import { notFound, ownedJob, ownedModel } from './owned.ts';
import { beginningIsGone } from './warm-start.ts';

/** POST /v1/preview/training-jobs and GET …/{job_id}/events. */
export function trainingJobRoutes(app: FastifyInstance, parts: RouteParts, bodies: TrajectoryBodyReader): void {
  const { store, blobs, training, inference, clock } = parts;

  void app.register(async (scope) => {
    acceptTrajectoryBodies(scope, bodies, 'job');
    scope.post<{ Body: TrajectoryBody<'job'> | undefined }>(
      '/v1/preview/training-jobs',
      { config: { scope: 'training' }, bodyLimit: parts.limits.previewBodyBytes },
      (request, reply) => {
        const body = trajectoryBodyOf(request);
        return answerOnce(store, request, reply, (completes) => createJob(request, body, completes));
      },
    );
  });

  async function createJob(
    request: FastifyRequest,
    body: TrajectoryBody<'job'>,
    completes: Completes,
  ): Promise<TrainingJobObject> {
    const { model_id: modelId, experimental_config: wireConfig } = body.summary.fields;
    const model = await ownedModel(request, parts, modelId);
    if (model.baseModel !== inference.baseModel.id) {
      throw new RequestError(
        'request.conflict',
        `The model is based on \`${model.baseModel}\`, which is not served here; served: ${inference.baseModel.id}`,
        { param: 'model_id' },
      );
    }
    const { contextLength, vocabSize } = inference.baseModel;
    const config = readJobConfig(wireConfig, contextLength);
    await checkReferenceStep(store, model, config.resolved);
    if (model.init !== null && (await store.latestCheckpoint(model.id)) === null) throw beginningIsGone(model);
    const id = randomUUID();
    const groupsKey = `groups/${id}`;
    await body.store({ key: groupsKey, checkVocabSize: vocabSize, metricsSplit: null });
    const job = toJobObject(newJob({ id, modelId: model.id, entityId: model.entityId, config, now: clock() }), {
      started: null,
      numGradientSteps: 0,
    });
    const stored = completes(job);
    try {
      const enqueued = await store.enqueueJob({
        id,
        modelId: model.id,
        kind: 'rl',
        config,
        groupsKey,
        keyId: callerOf(request).keyId,
        ...(stored ? { completes: stored } : {}),
      });
      if (enqueued === null) throw notFound('model', modelId, 'model_id');
    } catch (error) {
      await blobs.remove(groupsKey);
      throw error;
    }
    training.notify();
    return job;
  }

  app.get<{ Params: { job_id: string }; Querystring: EventPageQuery }>(
    '/v1/preview/training-jobs/:job_id/events',
    { config: { scope: 'training' }, schema: { querystring: EventPageQuerySchema } },
    async (request): Promise<ListPage<TrainingEventObject>> => {
      const job = await ownedJob(request, parts, request.params.job_id);
      const { after, limit } = request.query;
      const page = await store.listEvents({
        jobId: job.id,
        after: after ?? null,
        ...(limit === undefined ? {} : { limit }),
      });
      if (page === null) throw notFound('training job', job.id, 'job_id');
      return toListPage(page, toEventObject);
    },
  );
}

/** The row as it will be, for an answer that is known before the job exists. */
function newJob(input: { id: string; modelId: string; entityId: string; config: JobConfig; now: number }): Job {
  return {
    id: input.id,
    modelId: input.modelId,
    entityId: input.entityId,
    kind: 'rl',
    status: 'queued',
    pausedAt: null,
    position: 0,
    config: { ...input.config },
    groupsKey: '',
    keyId: null,
    lease: null,
    start: null,
    numAttempts: 0,
    errorMessage: null,
    createdAt: input.now,
    startedAt: null,
    finishedAt: null,
  };
}

function toEventObject(event: JobEvent): TrainingEventObject {
  return { id: event.id, type: event.type as TrainingEventType, data: event.data };
}
