import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  type ListPage,
  type EventPageQuery,
  EventPageQuerySchema,
  type TrainingEventObject,
  type TrainingEventType,
  type TrainingJobObject,
} from '@trainyard/protocol';
import type { JobEvent } from '@trainyard/store';

import {
  acceptTrajectoryBodies,
  type ReceivedBody,
  type TrajectoryBodyReader,
  withTrajectoryBody,
} from '../../trajectory-bodies/accept-trajectory-bodies.ts';
import type { TrajectoryBody } from '../../trajectory-bodies/trajectory-body.ts';
import { answerOnce, type Completes } from '../../answers/idempotency.ts';
import type { FeedWatch } from '../../answers/feed-watch.ts';
import { lastEventIdOf, type LiveBatch, sendLiveEvents, wantsLiveEvents } from '../../answers/live-events.ts';
import { toListPage } from '../../answers/paging.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { policyNames } from '../../forms/exchanges/captured-exchanges.ts';
import { resolveReferenceStep } from '../../../training-data/wire/reference-step.ts';
import { configFault, configNameOf, readJobConfig } from '../../../training-data/wire/training-config.ts';
import { notFound, ownedJob } from '../owned.ts';
import { baseOf, submitJob, trainableModel, UNKNOWN_LIMIT } from './submit-job.ts';

/** POST /v1/preview/training-jobs and GET …/{job_id}/events. */
export function trainingJobRoutes(
  app: FastifyInstance,
  parts: RouteParts,
  bodies: TrajectoryBodyReader,
  watch: FeedWatch,
): void {
  const { store } = parts;

  void app.register(async (scope) => {
    acceptTrajectoryBodies(scope, bodies, 'job');
    scope.post<{ Body: ReceivedBody<'job'> | undefined }>(
      '/v1/preview/training-jobs',
      { config: { scope: 'training', submits: true }, bodyLimit: parts.limits.previewBodyBytes },
      (request, reply) =>
        withTrajectoryBody(request, (body) =>
          answerOnce(store, request, reply, (completes) => createJob(request, body, completes)),
        ),
    );
  });

  async function createJob(
    request: FastifyRequest,
    body: TrajectoryBody<'job'>,
    completes: Completes,
  ): Promise<TrainingJobObject> {
    const { fields } = body.summary;
    const { model_id: modelId } = fields;
    const { model, limits } = await trainableModel(request, parts, modelId);
    const { contextLength = UNKNOWN_LIMIT, vocabSize = UNKNOWN_LIMIT } = baseOf(model, parts) ?? {};
    const configName = configNameOf(fields);
    const config = readJobConfig(fields[configName], contextLength, configName);
    if (config.resolved.entropyCoef > 0 && limits?.entropyGradients === false)
      throw configFault(
        'entropy_coef',
        `\`entropy_coef\` must be 0 because the trainer of this service computes no entropy gradient, got ${config.resolved.entropyCoef}`,
        configName,
      );
    const referenceStep = await resolveReferenceStep(store, model, config.resolved);
    const storeGroups = async (key: string) => {
      const { numUnknownRecords, numForeignExchanges, rewards, contents, metrics } = await body.store(
        { key, policy: policyNames(model), checkVocabSize: vocabSize, metricsSplit: null },
        (ids) => store.choiceRecords.find(model.entityId, ids),
      );
      const settings = { ...config, numUnknownRecords, numForeignExchanges, rolloutMetrics: metrics };
      return { settings, rewards, contents };
    };
    const submission = { model, kind: 'rl', dataPrefix: 'groups', referenceStep, store: storeGroups } as const;
    return await submitJob(request, parts, submission, completes);
  }

  app.get<{ Params: { job_id: string }; Querystring: EventPageQuery }>(
    '/v1/preview/training-jobs/:job_id/events',
    { config: { scope: 'training' }, schema: { querystring: EventPageQuerySchema } },
    async (request, reply): Promise<ListPage<TrainingEventObject> | FastifyReply> => {
      const job = await ownedJob(request, parts, request.params.job_id);
      const { after = null, limit } = request.query;
      const read = async (seen: string | null) => {
        const page = await store.jobs.listEvents({
          jobId: job.id,
          after: seen,
          ...(limit === undefined ? {} : { limit }),
        });
        if (page === null) throw notFound('training job', job.id, 'job_id');
        return page;
      };
      if (!wantsLiveEvents(request)) return toListPage(await read(after), toEventObject);
      const start = lastEventIdOf(request) ?? after;
      const hasEnded = async () => (await store.jobs.get(job.id))?.finishedAt !== null;
      const readLive = async (seen: string | null): Promise<LiveBatch> => {
        // Read first: an ended job already has its last event.
        const isOver = await hasEnded();
        const { items, hasMore } = await read(seen);
        return { events: items.map(toEventObject), isOver: isOver && !hasMore };
      };
      const first = await readLive(start);
      // Without this status browsers would reconnect for ever.
      if (first.isOver && first.events.length === 0) return await reply.code(204).send();
      await sendLiveEvents(reply, watch, start, readLive);
      return reply;
    },
  );
}

function toEventObject(event: JobEvent): TrainingEventObject {
  return { id: event.id, type: event.type as TrainingEventType, created_at: event.createdAt / 1000, data: event.data };
}
