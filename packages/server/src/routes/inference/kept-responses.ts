import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type DeletedResponse,
  type InputItemPage,
  type InputItemQuery,
  InputItemQuerySchema,
} from '@trainyard/protocol';
import { type KeptAnswer, StoreError } from '@trainyard/store';

import { type KeptItem, toListedItem } from '../../wire/responses/kept-items.ts';
import type { RouteParts } from '../server-parts.ts';
import { keptScopeOf, unknownAnswer } from './response-turn.ts';

interface AnswerId {
  response_id: string;
}

/** GET and DELETE /v1/responses/{response_id}, GET …/input_items. */
export function keptResponseRoutes(app: FastifyInstance, parts: RouteParts): void {
  const path = '/v1/responses/:response_id';

  app.get<{ Params: AnswerId }>(path, { config: { scope: 'inference' } }, async (request, reply) => {
    const { answer } = await ownedAnswer(request, request.params.response_id, parts);
    return reply.type('application/json; charset=utf-8').send(answer);
  });

  app.delete<{ Params: AnswerId }>(
    path,
    { config: { scope: 'inference' } },
    async (request): Promise<DeletedResponse> => {
      const { response_id: id } = request.params;
      const isDeleted = await parts.store.keptAnswers.delete(keptScopeOf(request), id);
      if (!isDeleted) throw unknownAnswer('Response', id, 'response_id');
      return { id, object: 'response', deleted: true };
    },
  );

  app.get<{ Params: AnswerId; Querystring: InputItemQuery }>(
    `${path}/input_items`,
    { config: { scope: 'inference' }, schema: { querystring: InputItemQuerySchema } },
    async (request): Promise<InputItemPage> => {
      const { input } = await ownedAnswer(request, request.params.response_id, parts);
      return pageOf(JSON.parse(input) as KeptItem[], request.query);
    },
  );
}

async function ownedAnswer(request: FastifyRequest, id: string, { store }: RouteParts): Promise<KeptAnswer> {
  const kept = await store.keptAnswers.find(keptScopeOf(request), id);
  if (kept === null) throw unknownAnswer('Response', id, 'response_id');
  return kept;
}

function pageOf(items: readonly KeptItem[], { after, limit = 20, order = 'desc' }: InputItemQuery): InputItemPage {
  const ordered = order === 'asc' ? items : items.toReversed();
  const start = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0)
    throw new StoreError('store.cursor_unknown', `no item has the id of \`after\``);
  const data = ordered.slice(start, start + limit).map(toListedItem);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  };
}
