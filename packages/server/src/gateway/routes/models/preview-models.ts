import { randomUUID } from 'node:crypto';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type CreateModelRequest,
  CreateModelRequestSchema,
  type DeleteModelResponse,
  type LoraRequest,
  type ModelObject,
} from '@trainyard/protocol';
import type { DeleteModelResult, Model, TrainerLimits } from '@trainyard/store';

import type { BaseModel } from '../../../seams/contract/base-models.ts';
import { refuseRank, refuseUntrainable } from '../../../seams/contract/trained-base-models.ts';
import { refuseShape, trainerLimits } from '../training/trainer-limits.ts';
import { callerOf } from '../../edge/auth.ts';
import { answerOnce } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { removeFiles } from '../files.ts';
import { retireAdapters } from './retire-adapters.ts';
import { readLoraShape, refuseUnsupportedAdapter, toLoraObject } from '../../../training-data/wire/lora.ts';
import { toModelObject } from '../../../training-data/wire/model-object.ts';
import { originOf } from '../job-origin.ts';
import { notFound, ownedModel } from '../owned.ts';
import { fits, type ModelStart, readWarmStart } from '../training/warm-start.ts';

/** POST /v1/preview/models and DELETE /v1/preview/models/{model_id}. */
export function previewModelRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, training, exports } = parts;

  app.post<{ Body: CreateModelRequest }>(
    '/v1/preview/models',
    { config: { scope: 'training' }, schema: { body: CreateModelRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<ModelObject> => {
        const { project, name, base_model: baseModel, lora: wireLora } = request.body;
        const caller = callerOf(request);
        const entity = request.body.entity ?? caller.entity;
        if (entity !== caller.entity) throw notFound('entity', entity, 'entity');
        const base = await requestedBase(request, parts, baseModel);
        const known = await store.models.find(entity, project, name);
        if (known !== null) return existing(known, request.body, base);
        const isTrained = request.body.sampling_only !== true;
        if (isTrained && base !== null) refuseUntrainable(base, 'base_model');
        const limits = isTrained ? await trainerLimits(parts, baseModel) : null;
        const id = randomUUID();
        const start = { entity, entityId: caller.entityId, base: base ?? { id: baseModel }, limits };
        const { lora, warmStart } = await modelStartOf(wireLora, start);
        refuseShape(lora, limits, 'lora');
        if (base !== null) refuseRank(base, lora);
        const shown = {
          lora,
          warmStart: warmStart === undefined ? null : { source: warmStart.source, directoryKey: null },
        };
        const created: ModelObject = {
          id,
          entity,
          project,
          name,
          base_model: baseModel,
          run_id: id,
          lora: toLoraObject(shown),
        };
        const answer = completes(created);
        const result = await store.models.create({
          id,
          entityId: caller.entityId,
          project,
          name,
          baseModel,
          lora,
          ...(warmStart ? { warmStart } : {}),
          tags: request.body.tags ?? [],
          notes: request.body.notes ?? '',
          ...(answer ? { completes: answer } : {}),
        });
        switch (result.kind) {
          case 'created':
            return created;
          case 'exists':
            return existing(result.model, request.body, base);
          case 'warm_start_missing':
            throw new RequestError(
              'request.unknown_model',
              `The checkpoint \`${warmStart?.source}\` was deleted in the meantime`,
              {
                param: 'lora.init_from',
              },
            );
          default:
            return result satisfies never;
        }
      }),
  );

  async function modelStartOf(
    wire: LoraRequest | null | undefined,
    options: {
      entity: string;
      entityId: string;
      base: Pick<BaseModel, 'id' | 'linearsByLayer'>;
      limits: TrainerLimits | null;
    },
  ): Promise<ModelStart> {
    const initFrom = wire?.init_from ?? null;
    if (!wire || initFrom === null) return { lora: readLoraShape(wire, options.limits, options.base) };
    refuseUnsupportedAdapter(wire, options.base);
    return await readWarmStart(parts, { ...wire, init_from: initFrom }, { ...options, baseModel: options.base.id });
  }

  app.delete<{ Params: { model_id: string } }>(
    '/v1/preview/models/:model_id',
    { config: { scope: 'training' } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<DeleteModelResponse> => {
        const model = await ownedModel(request, parts, request.params.model_id);
        // Before the deletion, because its stored answer reports if the tracker's run is gone.
        const isForgotten = (await parts.tracking?.forget(model.id)) ?? true;
        const toAnswer = (deleted: DeleteModelResult): DeleteModelResponse => ({
          model_id: model.id,
          deleted_checkpoints: deleted.deletedCheckpoints,
          deleted_run: deleted.deletedRun && isForgotten,
        });
        const deleted = await store.models.delete(model.id, (result) => completes(toAnswer(result)));
        if (deleted === null) throw notFound('model', model.id, 'model_id');
        parts.resolvedModels.clear();
        await Promise.all(deleted.cancelledJobIds.map((jobId) => training.stopJob(jobId)));
        await exports.cancelModel(model.id);
        retireAdapters(parts, deleted);
        await removeFiles(parts, deleted);
        return toAnswer(deleted);
      }),
  );
}

/**
 * A served base model, or null for one of a hub that is fetched from now on.
 * @throws {RequestError} `request.unknown_model`, `request.too_many`; `server.unavailable`
 */
async function requestedBase(
  request: FastifyRequest,
  { baseModels, hub }: RouteParts,
  id: string,
): Promise<BaseModel | null> {
  const found = baseModels.find(id);
  if (found !== null || hub === null) return found ?? baseModels.named(id);
  await hub.request(id, { entityId: callerOf(request).entityId, origin: originOf(request) });
  return baseModels.find(id);
}

/** Answer of a registration with a taken name. @throws {RequestError} `request.model_exists` */
function existing(model: Model, body: CreateModelRequest, base: BaseModel | null): ModelObject {
  const name = `${model.entity}/${model.project}/${model.name}`;
  const refuse = (message: string, param: string): never => {
    throw new RequestError('request.model_exists', message, { param });
  };
  if (!body.return_existing)
    refuse(
      `The model ${name} already exists${model.archivedAt === null ? '' : ' in the archive'}; send \`return_existing: true\` to use it`,
      'name',
    );
  if (model.baseModel !== body.base_model)
    refuse(
      `The model ${name} exists with the base model \`${model.baseModel}\`, not \`${body.base_model}\``,
      'base_model',
    );
  if (body.lora && !fits(body.lora, model, base))
    refuse(`The model ${name} exists with another adapter: ${JSON.stringify(toLoraObject(model))}`, 'lora');
  return toModelObject(model);
}
