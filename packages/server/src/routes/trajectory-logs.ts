import { randomUUID } from 'node:crypto';

import type { FastifyInstance } from 'fastify';
import { type LogTrajectoriesRequest, LogTrajectoriesRequestSchema } from '@trainyard/protocol';

import { answerOnce } from '../idempotency.ts';
import type { RouteParts } from '../server-parts.ts';
import { STOP_AT_FIRST_FAULT } from '../validation.ts';
import { computeLogMetrics } from '../wire/log-metrics.ts';
import { notFound, ownedModel } from './owned.ts';
import { storeGroups } from './store-groups.ts';

/** POST /v1/preview/models/{model_id}/log: keeps the trajectories and puts their means on the latest checkpoint. */
export function trajectoryLogRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, blobs } = parts;
  app.post<{ Params: { model_id: string }; Body: LogTrajectoriesRequest }>(
    '/v1/preview/models/:model_id/log',
    {
      config: { scope: 'training' },
      bodyLimit: parts.limits.previewBodyBytes,
      schema: { body: { ...LogTrajectoriesRequestSchema, ...STOP_AT_FIRST_FAULT } },
    },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes) => {
        const { trajectory_groups: groups, split } = request.body;
        const model = await ownedModel(request, parts, request.params.model_id);
        const numTrajectories = groups.reduce((sum, group) => sum + group.trajectories.length, 0);
        const answer = { model_id: model.id, num_trajectories: numTrajectories };
        if (numTrajectories === 0) return answer;
        const blobKey = `logs/${randomUUID()}`;
        await storeGroups(blobs, blobKey, groups);
        const numExceptions = groups.reduce((sum, group) => sum + (group.exceptions?.length ?? 0), 0);
        const stored = completes(answer);
        try {
          const log = await store.recordLog({
            modelId: model.id,
            split,
            blobKey,
            metrics: computeLogMetrics(groups, split),
            numGroups: groups.length,
            numTrajectories,
            numExceptions,
            ...(stored ? { completes: stored } : {}),
          });
          if (log === null) throw notFound('model', model.id, 'model_id');
        } catch (error) {
          await blobs.remove(blobKey);
          throw error;
        }
        return answer;
      }),
  );
}
