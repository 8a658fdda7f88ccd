import type { FastifyInstance } from 'fastify';
import {
  type CheckpointObject,
  type CheckpointPageQuery,
  CheckpointPageQuerySchema,
  type DeleteCheckpointsRequest,
  DeleteCheckpointsRequestSchema,
  type DeleteCheckpointsResponse,
  type KeepCheckpointsRequest,
  KeepCheckpointsRequestSchema,
  type KeepCheckpointsResponse,
  type ListPage,
} from '@trainyard/protocol';
import type { DeleteCheckpointsResult } from '@trainyard/store';

import { answerOnce } from '../../answers/idempotency.ts';
import { toListPage } from '../../answers/paging.ts';
import { restoreFiles } from '../../../jobs/checkpoints/restore-files.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { removeFiles } from '../files.ts';
import { checkpointObjects, removedCheckpoints } from './checkpoint-objects.ts';
import { retireAdapters } from './retire-adapters.ts';
import { ownedModel } from '../owned.ts';

/** GET and DELETE /v1/preview/models/{model_id}/checkpoints, and POST …/keep. */
export function checkpointRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store } = parts;
  const path = '/v1/preview/models/:model_id/checkpoints';

  app.get<{ Params: { model_id: string }; Querystring: CheckpointPageQuery }>(
    path,
    { config: { scope: 'training' }, schema: { querystring: CheckpointPageQuerySchema } },
    async (request): Promise<ListPage<CheckpointObject>> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const { removed = false, min_step: minStep, max_step: maxStep, ...page } = request.query;
      const steps = { ...(minStep === undefined ? {} : { minStep }), ...(maxStep === undefined ? {} : { maxStep }) };
      const query = { ...page, ...steps };
      if (removed) return toListPage(await removedCheckpoints(parts, model.id, query), (checkpoint) => checkpoint);
      const { items, hasMore } = await store.checkpoints.list({ ...query, modelId: model.id });
      const objects = await checkpointObjects(parts, model.id, items);
      return toListPage({ items: objects, hasMore }, (checkpoint) => checkpoint);
    },
  );

  app.post<{ Params: { model_id: string }; Body: KeepCheckpointsRequest }>(
    `${path}/keep`,
    { config: { scope: 'training' }, schema: { body: KeepCheckpointsRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<KeepCheckpointsResponse> => {
        const model = await ownedModel(request, parts, request.params.model_id);
        const { steps, is_kept: isKept = true } = request.body;
        const { present, restored } = isKept
          ? await restoreFiles(parts, model.id, steps)
          : { present: steps, restored: [] };
        const gone = [...new Set(steps)].filter((step) => !present.includes(step));
        const toAnswer = (marked: { steps: number[]; notFoundSteps: number[] }): KeepCheckpointsResponse => ({
          steps: marked.steps,
          restored_steps: restored.filter((step) => marked.steps.includes(step)),
          not_found_steps: [...gone, ...marked.notFoundSteps].toSorted((one, other) => one - other),
        });
        return toAnswer(await store.retention.mark(model.id, present, isKept, (marked) => completes(toAnswer(marked))));
      }),
  );

  app.delete<{ Params: { model_id: string }; Body: DeleteCheckpointsRequest }>(
    path,
    { config: { scope: 'training' }, schema: { body: DeleteCheckpointsRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<DeleteCheckpointsResponse> => {
        const model = await ownedModel(request, parts, request.params.model_id);
        const deleted = await store.checkpoints.delete(model.id, request.body.steps, (result) =>
          completes(toDeleteAnswer(result)),
        );
        parts.resolvedModels.clear();
        retireAdapters(parts, deleted);
        await removeFiles(parts, deleted);
        return toDeleteAnswer(deleted);
      }),
  );
}

function toDeleteAnswer(deleted: DeleteCheckpointsResult): DeleteCheckpointsResponse {
  return { deleted_count: deleted.deletedCount, not_found_steps: deleted.notFoundSteps };
}
