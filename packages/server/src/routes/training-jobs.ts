import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { FastifyInstance } from 'fastify';
import {
  type CreateTrainingJobRequest,
  CreateTrainingJobRequestSchema,
  type ListPage,
  type EventPageQuery,
  EventPageQuerySchema,
  type TrainingEventObject,
  type TrainingEventType,
  type TrainingJobObject,
  type WireTrajectoryGroup,
} from '@trainyard/protocol';
import type { Job, JobEvent } from '@trainyard/store';

import { callerOf } from '../auth.ts';
import { answerOnce } from '../idempotency.ts';
import { toListPage } from '../paging.ts';
import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { STOP_AT_FIRST_FAULT } from '../validation.ts';
import { type JobConfig, readJobConfig } from '../wire/training-config.ts';
import { trajectoryGroupOf, TrajectoryFormatError } from '../wire/trajectory-groups.ts';
import { notFound, ownedJob, ownedModel } from './owned.ts';
import { storeGroups } from './store-groups.ts';

/** POST /v1/preview/training-jobs, GET …/{job_id} and GET …/{job_id}/events. */
export function trainingJobRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, blobs, training, inference, clock } = parts;

  app.post<{ Body: CreateTrainingJobRequest }>(
    '/v1/preview/training-jobs',
    {
      config: { scope: 'training' },
      bodyLimit: parts.limits.previewBodyBytes,
      schema: { body: { ...CreateTrainingJobRequestSchema, ...STOP_AT_FIRST_FAULT } },
    },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<TrainingJobObject> => {
        const { model_id: modelId, trajectory_groups: groups, experimental_config: wireConfig } = request.body;
        const model = await ownedModel(request, parts, modelId);
        if (model.baseModel !== inference.baseModel.id) {
          throw new RequestError(
            'request.conflict',
            `The model is based on \`${model.baseModel}\`, which is not served here; served: ${inference.baseModel.id}`,
            { param: 'model_id' },
          );
        }
        const config: JobConfig = readJobConfig(wireConfig, inference.baseModel.contextLength);
        await checkGroups(groups, inference.baseModel.vocabSize);
        const id = randomUUID();
        const groupsKey = `groups/${id}`;
        await storeGroups(blobs, groupsKey, groups);
        const job: TrainingJobObject = {
          id,
          model_id: model.id,
          status: 'queued',
          created_at: Math.floor(clock() / 1000),
          ignored_config_keys: config.ignoredKeys,
        };
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
      }),
  );

  app.get<{ Params: { job_id: string } }>(
    '/v1/preview/training-jobs/:job_id',
    { config: { scope: 'training' } },
    async (request) => toJobObject(await ownedJob(request, parts, request.params.job_id)),
  );

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

/**
 * Everything about the trajectories that would fail the job later is refused before there is a job.
 * Other requests get a turn between two groups: 76 MB of trajectories take a third of a second.
 */
async function checkGroups(groups: readonly WireTrajectoryGroup[], vocabSize: number): Promise<void> {
  for (const [index, group] of groups.entries()) {
    try {
      trajectoryGroupOf(group, index, vocabSize);
    } catch (error) {
      throw error instanceof TrajectoryFormatError ? RequestError.invalid([error.item]) : error;
    }
    await nextTurn();
  }
}

function toJobObject(job: Job): TrainingJobObject {
  const ignoredKeys = job.config['ignoredKeys'];
  return {
    id: job.id,
    model_id: job.modelId,
    status: job.status,
    created_at: Math.floor(job.createdAt / 1000),
    ignored_config_keys: Array.isArray(ignoredKeys) ? ignoredKeys.map(String) : [],
  };
}

function toEventObject(event: JobEvent): TrainingEventObject {
  return { id: event.id, type: event.type as TrainingEventType, data: event.data };
}
