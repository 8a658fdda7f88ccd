import type { FastifyInstance } from 'fastify';
import {
  type ConversationItemList,
  type ConversationItemObject,
  type ConversationItemQuery,
  ConversationItemQuerySchema,
  type ConversationObject,
  type CreateItemsRequest,
  CreateItemsRequestSchema,
  type ItemQuery,
  ItemQuerySchema,
} from '@trainyard/protocol';
import type { ConversationItem } from '@trainyard/store';

import { answerOnce } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { toListedConversationItem } from '../responses/conversation-items.ts';
import { quoted } from '../responses/kept-items.ts';
import { keptMemoryOf } from '../responses/kept-memory.ts';
import { checkInclude } from '../responses/request.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { itemsToAdd, keyOf, known, refuse, toObject } from './route.ts';

interface ConversationId {
  conversation_id: string;
}

interface ItemId extends ConversationId {
  item_id: string;
}

/** GET and POST /v1/conversations/{conversation_id}/items, GET and DELETE of one item. */
export function conversationItemRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { conversations } = parts.store;
  const path = '/v1/conversations/:conversation_id/items';
  const config = { scope: 'inference' } as const;

  app.post<{ Params: ConversationId; Body: CreateItemsRequest; Querystring: ItemQuery }>(
    path,
    { config, schema: { body: CreateItemsRequestSchema, querystring: ItemQuerySchema } },
    (request, reply) =>
      answerOnce(parts.store, request, reply, async (completes) => {
        checkQuery(request.query);
        const key = keyOf(request);
        known(await conversations.find(key), key);
        const items = await itemsToAdd(request, request.body.items, parts);
        const list = toList(items, false);
        refuse(await conversations.add(key, items, completes(list)), key, parts);
        return list;
      }),
  );

  app.get<{ Params: ConversationId; Querystring: ConversationItemQuery }>(
    path,
    { config, schema: { querystring: ConversationItemQuerySchema } },
    async (request): Promise<ConversationItemList> => {
      checkQuery(request.query);
      const { after, limit = 20, order = 'desc' } = request.query;
      const key = keyOf(request);
      const { open } = keptMemoryOf(request, parts);
      const page = await conversations.listItems(key, { after, limit, isAscending: order === 'asc' }, open);
      const { items, hasMore } = known(page, key);
      return toList(items, hasMore);
    },
  );

  app.get<{ Params: ItemId; Querystring: ItemQuery }>(
    `${path}/:item_id`,
    { config, schema: { querystring: ItemQuerySchema } },
    async (request): Promise<ConversationItemObject> => {
      checkQuery(request.query);
      const key = keyOf(request);
      const { item_id: itemId } = request.params;
      const item = await conversations.findItem(key, itemId, keptMemoryOf(request, parts).open);
      if (item !== null) return toListedConversationItem(item);
      known(await conversations.find(key), key);
      throw unknownItem(itemId);
    },
  );

  app.delete<{ Params: ItemId }>(`${path}/:item_id`, { config }, async (request): Promise<ConversationObject> => {
    const key = keyOf(request);
    const { item_id: itemId } = request.params;
    const left = await conversations.deleteItem(key, itemId);
    if (left !== null) return toObject(left);
    known(await conversations.find(key), key);
    throw unknownItem(itemId);
  });
}

/** OpenAI's clients add brackets to the name of a list. */
function checkQuery({ include = [], 'include[]': named = [] }: ItemQuery): void {
  checkInclude([include, named].flat());
}

function unknownItem(id: string): RequestError {
  return new RequestError('request.not_found', `Item with id ${quoted(id)} not found.`, { param: 'item_id' });
}

function toList(items: readonly ConversationItem[], hasMore: boolean): ConversationItemList {
  const data = items.map(toListedConversationItem);
  return { object: 'list', data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: hasMore };
}
