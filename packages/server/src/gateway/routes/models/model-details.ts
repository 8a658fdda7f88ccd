import type { FastifyInstance } from 'fastify';
import {
  type ListPage,
  MAX_TAGS,
  type ModelDetailsObject,
  type ModelPageQuery,
  ModelPageQuerySchema,
  type UpdateModelRequest,
  UpdateModelRequestSchema,
} from '@trainyard/protocol';
import type { LabelResult, Model, ModelState } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { toListPage } from '../../answers/paging.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { toModelObject } from '../../../training-data/wire/model-object.ts';
import { readMetrics } from './checkpoint-metrics.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { notFound, ownedModel } from '../owned.ts';

/** GET /v1/preview/models, GET and PATCH /v1/preview/models/{model_id}. */
export function modelDetailsRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, baseModels } = parts;

  app.get<{ Querystring: ModelPageQuery }>(
    '/v1/preview/models',
    { config: { scope: 'training' }, schema: { querystring: ModelPageQuerySchema } },
    async (request): Promise<ListPage<ModelDetailsObject>> => {
      const { tag, archived = 'excluded', ...page } = request.query;
      const { entityId } = callerOf(request);
      const tags = tag === undefined ? [] : [tag].flat();
      const { items, hasMore } = await store.models.list({ ...page, entityId, tags, archived });
      const states = await store.models.getStates(items.map(({ id }) => id));
      // Omits models deleted in the meantime.
      const kept = items.flatMap((model) => {
        const state = states.get(model.id);
        return state === undefined ? [] : [describe(model, state)];
      });
      return toListPage({ items: await Promise.all(kept), hasMore }, (model) => model);
    },
  );

  app.get<{ Params: { model_id: string } }>(
    '/v1/preview/models/:model_id',
    { config: { scope: 'training' } },
    async (request): Promise<ModelDetailsObject> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const state = (await store.models.getStates([model.id])).get(model.id);
      if (state === undefined) throw notFound('model', model.id, 'model_id');
      return await describe(model, state);
    },
  );

  app.patch<{ Params: { model_id: string }; Body: UpdateModelRequest }>(
    '/v1/preview/models/:model_id',
    { config: { scope: 'training' }, schema: { body: UpdateModelRequestSchema } },
    async (request): Promise<ModelDetailsObject> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const { add_tags: addTags, remove_tags: removeTags, notes, is_archived: isArchived } = request.body;
      const result = await store.models.label(model.id, {
        addTags: addTags ?? [],
        removeTags: removeTags ?? [],
        ...(notes == null ? {} : { notes }),
        ...(isArchived == null ? {} : { isArchived }),
        maxTags: MAX_TAGS,
      });
      const state = (await store.models.getStates([model.id])).get(model.id);
      if (result === null || state === undefined) throw notFound('model', model.id, 'model_id');
      if (result.kind !== 'labelled') throw refusal(model, result);
      return await describe(result.model, state);
    },
  );

  async function trackedRun(modelId: string): Promise<ModelDetailsObject['tracked_run']> {
    const run = (await parts.tracking?.find(modelId)) ?? null;
    return run === null ? null : { tracker: run.tracker, id: run.id, url: run.url };
  }

  async function describe(model: Model, state: ModelState): Promise<ModelDetailsObject> {
    return {
      ...toModelObject(model),
      is_served: baseModels.find(model.baseModel) !== null,
      tracked_run: await trackedRun(model.id),
      created_at: Math.floor(model.createdAt / 1000),
      tags: [...state.tags],
      notes: model.notes,
      archived_at: model.archivedAt === null ? null : Math.floor(model.archivedAt / 1000),
      latest_step: state.latest?.step ?? null,
      num_checkpoints: state.numCheckpoints,
      num_gradient_steps: model.numGradientSteps,
      metrics: state.latest === null ? {} : (await readMetrics(store, model.id, [state.latest]))[0]!,
      reward: state.reward,
      best: state.best,
      live_jobs: state.jobs,
      last_job:
        state.lastJob === null
          ? null
          : {
              id: state.lastJob.id,
              status: state.lastJob.status,
              error_message: state.lastJob.errorMessage,
              finished_at: Math.floor(state.lastJob.finishedAt / 1000),
            },
    };
  }
}

/** @returns the error of a change that was not made */
function refusal({ entity, project, name }: Model, result: Exclude<LabelResult, { kind: 'labelled' }>): RequestError {
  if (result.kind === 'live_jobs')
    return new RequestError(
      'request.model_in_training',
      `The model ${entity}/${project}/${name} has ${result.numJobs} unfinished training ${result.numJobs === 1 ? 'job' : 'jobs'}: wait for the end or cancel, then archive it`,
      { param: 'is_archived' },
    );
  const msg = `A model should have at most ${MAX_TAGS} tags, and would have ${result.numTags}`;
  return RequestError.invalid([{ loc: ['body', 'add_tags'], msg, type: 'too_long' }]);
}
