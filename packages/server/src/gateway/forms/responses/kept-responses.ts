import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type DeletedResponse,
  type InputItemPage,
  type InputItemQuery,
  InputItemQuerySchema,
  type Response,
  type ResponseQuery,
  ResponseQuerySchema,
} from '@trainyard/protocol';
import { type KeptAnswer, StoreError } from '@trainyard/store';

import { abortOnDisconnect } from '../../answers/sse.ts';
import { conflict } from '../shared/conflict.ts';
import { cancelledState, isEnded } from '../../background/answer-states.ts';
import { type KeptItem, toListedItem } from './kept-items.ts';
import { keptMemoryOf } from './kept-memory.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { sendKeptEvents, statusOf } from './kept-events.ts';
import { keptScopeOf, unknownAnswer } from './response-turn.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

interface AnswerId {
  response_id: string;
}

/** GET and DELETE /v1/responses/{response_id}, POST …/cancel, GET …/input_items. */
export function keptResponseRoutes(app: FastifyInstance, parts: RouteParts): void {
  const path = '/v1/responses/:response_id';

  app.get<{ Params: AnswerId; Querystring: ResponseQuery }>(
    path,
    { config: { scope: 'inference' }, schema: { querystring: ResponseQuerySchema } },
    async (request, reply) => {
      const signal = abortOnDisconnect(reply);
      const { stream = false, starting_after: last = -1 } = request.query;
      const { answer, ...key } = await ownedAnswer(request, request.params.response_id, parts);
      if (!stream) return reply.type(JSON_TYPE).send(answer);
      if ((await parts.store.keptAnswers.readEvents(key, 0, 1)).length === 0)
        throw conflict('stream', 'Only answers created with `background: true` and `stream: true` can be streamed');
      await sendKeptEvents(reply, { key, from: last + 1 }, parts, signal);
      return reply;
    },
  );

  app.post<{ Params: AnswerId }>(`${path}/cancel`, { config: { scope: 'inference' } }, async (request, reply) => {
    const { answer, status, ...key } = await ownedAnswer(request, request.params.response_id, parts);
    if (!(JSON.parse(answer) as Response).background)
      throw conflict('response_id', 'Cannot cancel a synchronous response. Close its connection instead');
    if (isEnded(status)) return reply.type(JSON_TYPE).send(answer);
    await parts.store.keptAnswers.end(key, cancelledState(answer));
    parts.background.ended(key);
    return reply.type(JSON_TYPE).send((await ownedAnswer(request, key.id, parts)).answer);
  });

  app.delete<{ Params: AnswerId }>(
    path,
    { config: { scope: 'inference' } },
    async (request): Promise<DeletedResponse> => {
      const { response_id: id } = request.params;
      const scope = keptScopeOf(request);
      const isDeleted = await parts.store.keptAnswers.delete(scope, id);
      parts.background.ended({ ...scope, id });
      if (!isDeleted) throw unknownAnswer('Response', id, 'response_id');
      return { id, object: 'response', deleted: true };
    },
  );

  app.get<{ Params: AnswerId; Querystring: InputItemQuery }>(
    `${path}/input_items`,
    { config: { scope: 'inference' }, schema: { querystring: InputItemQuerySchema } },
    async (request): Promise<InputItemPage> => {
      const { response_id: id } = request.params;
      const { open } = keptMemoryOf(request, parts);
      const kept = await parts.store.keptAnswers.findWhole(keptScopeOf(request), id, open);
      if (kept === null) throw unknownAnswer('Response', id, 'response_id');
      return pageOf(JSON.parse(kept.input) as KeptItem[], request.query);
    },
  );
}

/**
 * Answer of the caller; an answer whose process is gone has failed.
 * @throws {RequestError} `previous_response_not_found`
 */
async function ownedAnswer(request: FastifyRequest, id: string, parts: RouteParts): Promise<KeptAnswer> {
  const scope = keptScopeOf(request);
  await statusOf({ ...scope, id }, parts);
  const kept = await parts.store.keptAnswers.find(scope, id, keptMemoryOf(request, parts).open);
  if (kept === null) throw unknownAnswer('Response', id, 'response_id');
  return kept;
}

function pageOf(items: readonly KeptItem[], { after, limit = 20, order = 'desc' }: InputItemQuery): InputItemPage {
  const ordered = order === 'asc' ? items : items.toReversed();
  const start = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0)
    throw new StoreError('store.cursor_unknown', `\`after\` is not the id of an item`);
  const data = ordered.slice(start, start + limit).map(toListedItem);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  };
}
