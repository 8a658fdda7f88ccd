import type { FastifyInstance } from 'fastify';
import {
  type CheckpointObject,
  type DeleteCheckpointsRequest,
  DeleteCheckpointsRequestSchema,
  type DeleteCheckpointsResponse,
  type ListPage,
  type PageQuery,
  PageQuerySchema,
} from '@trainyard/protocol';
import type { DeleteCheckpointsResult } from '@trainyard/store';

import { answerOnce } from '../../answers/idempotency.ts';
import { toListPage } from '../../answers/paging.ts';
import type { RouteParts } from '../server-parts.ts';
import { removeFiles } from '../files.ts';
import { readMetrics } from './checkpoint-metrics.ts';
import { retireAdapters } from './retire-adapters.ts';
import { ownedModel } from '../owned.ts';

/** GET and DELETE /v1/preview/models/{model_id}/checkpoints. What is listed can be sampled from. */
export function checkpointRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store } = parts;
  const path = '/v1/preview/models/:model_id/checkpoints';

  app.get<{ Params: { model_id: string }; Querystring: PageQuery }>(
    path,
    { config: { scope: 'training' }, schema: { querystring: PageQuerySchema } },
    async (request): Promise<ListPage<CheckpointObject>> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const { items, hasMore } = await store.listCheckpoints({ ...request.query, modelId: model.id });
      const metrics = await readMetrics(store, model.id, items);
      const objects = items.map(({ id, step }, index): CheckpointObject => ({ id, step, metrics: metrics[index]! }));
      return toListPage({ items: objects, hasMore }, (checkpoint) => checkpoint);
    },
  );

  app.delete<{ Params: { model_id: string }; Body: DeleteCheckpointsRequest }>(
    path,
    { config: { scope: 'training' }, schema: { body: DeleteCheckpointsRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<DeleteCheckpointsResponse> => {
        const model = await ownedModel(request, parts, request.params.model_id);
        const deleted = await store.deleteCheckpoints(model.id, request.body.steps, (result) =>
          completes(toDeleteAnswer(result)),
        );
        retireAdapters(parts, deleted);
        await removeFiles(parts, deleted);
        return toDeleteAnswer(deleted);
      }),
  );
}

function toDeleteAnswer(deleted: DeleteCheckpointsResult): DeleteCheckpointsResponse {
  return { deleted_count: deleted.deletedCount, not_found_steps: deleted.notFoundSteps };
}
