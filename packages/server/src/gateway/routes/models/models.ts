import { randomUUID } from 'node:crypto';

import type { FastifyContextConfig, FastifyInstance } from 'fastify';
import type { ModelCard, ModelList } from '@trainyard/protocol';

import { callerOf } from '../../edge/auth.ts';
import type { BaseModel } from '../../../seams/contract/base-models.ts';
import { resolveModelName, versionName } from '../../../seams/contract/model-names.ts';
import { walkPages } from '../../answers/paging.ts';
import { adapterName } from '../../../seams/contract/resolve-imported-adapter.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { speaksAnthropic } from '../../forms/messages/error.ts';
import { notFound } from '../owned.ts';

const CONFIG: FastifyContextConfig = { scope: 'inference', toErrorForm: 'of-client' };

/**
 * GET /v1/models and /v1/models/{model}: the base models, then every unarchived model of the caller, its latest
 * version first under its bare name, then the caller's imported adapters.
 */
export function modelRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.get('/v1/models', { config: CONFIG }, async (request): Promise<ModelList> => {
    const { store, baseModels, clock } = parts;
    const { entityId } = callerOf(request);
    const now = Math.floor(clock() / 1000);
    const data = baseModels.all.map((base) => baseCard(base, now));
    for await (const model of walkPages((page) => store.models.list({ ...page, entityId, archived: 'excluded' }))) {
      // A model whose base model is not served cannot be served.
      const base = baseModels.find(model.baseModel);
      if (base === null) continue;
      const name = `${model.entity}/${model.project}/${model.name}`;
      const card = (id: string, createdAt: number): ModelCard =>
        toCard({ id, created: Math.floor(createdAt / 1000), root: name, parent: base.id, base, now });
      const versions: ModelCard[] = [];
      for await (const checkpoint of walkPages((page) => store.checkpoints.list({ ...page, modelId: model.id })))
        versions.push(card(versionName(model, checkpoint.step), checkpoint.createdAt));
      // A name without a checkpoint cannot answer.
      if (versions.length > 0) data.push(card(name, model.createdAt), ...versions);
    }
    for await (const { id, baseModel, committedAt } of walkPages((page) =>
      store.adapters.list({ ...page, entityId }),
    )) {
      const base = baseModels.find(baseModel);
      if (base === null || committedAt === null) continue;
      const name = adapterName(id);
      data.push(toCard({ id: name, created: Math.floor(committedAt / 1000), root: name, parent: base.id, base, now }));
    }
    return speaksAnthropic(request) ? anthropicList(data) : { object: 'list', data };
  });

  // Names contain slashes, which only some clients encode.
  app.get<{ Params: { '*': string } }>('/v1/models/*', { config: CONFIG }, async (request): Promise<ModelCard> => {
    const { store, baseModels, clock } = parts;
    const requested = request.params['*'];
    if (requested === '') throw notFound('model', requested, 'model');
    const { entity, entityId } = callerOf(request);
    const model = await resolveModelName(store, { requested, entity, entityId, baseModels });
    const now = Math.floor(clock() / 1000);
    const { base } = model;
    const inShape = (card: ModelCard): ModelCard => (speaksAnthropic(request) ? anthropicCard(card) : card);
    if (model.kind === 'base') return inShape(baseCard(base, now));
    const created = Math.floor(model.createdAt / 1000);
    const root = model.kind === 'adapter' ? model.name : model.root;
    return inShape(toCard({ id: model.name, created, root, parent: base.id, base, now }));
  });
}

/** Adds the members that clients of the Anthropic API read. */
function anthropicCard(card: ModelCard): ModelCard {
  return { ...card, type: 'model', display_name: card.id, created_at: new Date(card.created * 1000).toISOString() };
}

function anthropicList(cards: readonly ModelCard[]): ModelList {
  const data = cards.map(anthropicCard);
  return { object: 'list', data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

function baseCard(base: BaseModel, now: number): ModelCard {
  return toCard({ id: base.id, created: now, root: base.id, parent: null, base, now });
}

function toCard(card: {
  id: string;
  created: number;
  root: string;
  parent: string | null;
  base: BaseModel;
  now: number;
}): ModelCard {
  const isTrainable = (card.base.untrainable ?? null) === null;
  return {
    id: card.id,
    object: 'model',
    created: card.created,
    owned_by: 'trainyard',
    root: card.root,
    parent: card.parent,
    max_model_len: card.base.contextLength,
    trainable: isTrainable,
    permission: [
      {
        id: `modelperm-${randomUUID().replaceAll('-', '')}`,
        object: 'model_permission',
        created: card.now,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: card.parent === null && isTrainable,
        organization: '*',
        group: null,
        is_blocking: false,
      },
    ],
  };
}
