import { randomUUID } from 'node:crypto';

import type { FastifyInstance } from 'fastify';
import {
  type CreateModelRequest,
  CreateModelRequestSchema,
  type DeleteModelResponse,
  type ModelObject,
} from '@trainyard/protocol';
import type { Model } from '@trainyard/store';
import { DEFAULT_LORA_CONFIG } from '@trainyard/trainer';

import { callerOf } from '../auth.ts';
import { answerOnce } from '../idempotency.ts';
import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { removeFiles } from './files.ts';
import { notFound, ownedModel } from './owned.ts';

/** POST /v1/preview/models and DELETE /v1/preview/models/{model_id}. */
export function previewModelRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, training, exports, inference } = parts;

  app.post<{ Body: CreateModelRequest }>(
    '/v1/preview/models',
    { config: { scope: 'training' }, schema: { body: CreateModelRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<ModelObject> => {
        const { project, name, base_model: baseModel, return_existing: mayExist } = request.body;
        const caller = callerOf(request);
        const entity = request.body.entity ?? caller.entity;
        if (entity !== caller.entity) throw notFound('entity', entity, 'entity');
        if (baseModel !== inference.baseModel.id) {
          throw new RequestError(
            'request.unknown_model',
            `The base model \`${baseModel}\` is not served here; known: ${inference.baseModel.id}`,
            { param: 'base_model' },
          );
        }
        const id = randomUUID();
        const created: ModelObject = { id, entity, project, name, base_model: baseModel, run_id: null };
        const answer = completes(created);
        const result = await store.createModel({
          id,
          entityId: caller.entityId,
          project,
          name,
          baseModel,
          lora: DEFAULT_LORA_CONFIG,
          ...(answer ? { completes: answer } : {}),
        });
        if (result.kind === 'created') return created;
        if (!mayExist)
          throw new RequestError(
            'request.model_exists',
            `The model ${entity}/${project}/${name} exists already; send \`return_existing: true\` to use it`,
            { param: 'name' },
          );
        if (result.model.baseModel !== baseModel) {
          throw new RequestError(
            'request.model_exists',
            `The model ${entity}/${project}/${name} exists with the base model \`${result.model.baseModel}\`, not \`${baseModel}\``,
            { param: 'base_model' },
          );
        }
        return toModelObject(result.model);
      }),
  );

  app.delete<{ Params: { model_id: string } }>(
    '/v1/preview/models/:model_id',
    { config: { scope: 'training' } },
    async (request): Promise<DeleteModelResponse> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const deleted = await store.deleteModel(model.id);
      if (deleted === null) throw notFound('model', model.id, 'model_id');
      await training.cancelModel(model.id);
      await exports.cancelModel(model.id);
      await removeFiles(parts, deleted);
      return { model_id: model.id, deleted_checkpoints: deleted.deletedCheckpoints, deleted_run: deleted.deletedRun };
    },
  );
}

function toModelObject(model: Model): ModelObject {
  return {
    id: model.id,
    entity: model.entity,
    project: model.project,
    name: model.name,
    base_model: model.baseModel,
    run_id: model.runId,
  };
}
