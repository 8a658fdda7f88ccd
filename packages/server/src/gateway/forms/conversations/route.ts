import { randomUUID } from 'node:crypto';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type ConversationObject,
  type CreateConversationRequest,
  CreateConversationRequestSchema,
  type DeletedConversation,
  type ResponseInputItem,
  type UpdateConversationRequest,
  UpdateConversationRequestSchema,
} from '@trainyard/protocol';
import type { AddResult, Conversation, ConversationItem, ConversationKey } from '@trainyard/store';

import { answerOnce } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { conflict } from '../shared/conflict.ts';
import { newItems, toStored } from '../responses/conversation-items.ts';
import { toChatMessages } from '../responses/items.ts';
import { LeftOut } from '../../../seams/chat/left-out.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { resolveReferences } from '../responses/item-references.ts';
import { keptMemoryOf } from '../responses/kept-memory.ts';
import { normalizedBody } from '../generation/normalized-body.ts';
import { keptScopeOf, NO_CONVERSATIONS, unknownConversation } from '../responses/response-turn.ts';

interface ConversationId {
  conversation_id: string;
}

/** POST /v1/conversations, and GET, POST and DELETE of one. */
export function conversationRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { conversations } = parts.store;
  const path = '/v1/conversations/:conversation_id';
  const config = { scope: 'inference' } as const;

  app.post<{ Body: CreateConversationRequest }>(
    '/v1/conversations',
    {
      config,
      schema: { body: CreateConversationRequestSchema },
      // The body may be absent.
      preValidation: normalizedBody((body) => body ?? {}),
    },
    (request, reply) =>
      answerOnce(parts.store, request, reply, async (completes) => {
        const { items, metadata } = request.body;
        const id = `conv_${randomUUID().replaceAll('-', '')}`;
        const key = { ...keptScopeOf(request), id };
        const conversation = {
          ...key,
          metadata: JSON.stringify(metadata ?? {}),
          items: await itemsToAdd(request, items ?? [], parts),
        };
        const created = await conversations.create(conversation, (result) => completes(toObject(result)));
        if (typeof created === 'string') throw refusal(created, key, parts);
        return toObject(created);
      }),
  );

  app.get<{ Params: ConversationId }>(path, { config }, async (request): Promise<ConversationObject> => {
    const key = keyOf(request);
    return toObject(known(await conversations.find(key), key));
  });

  app.post<{ Params: ConversationId; Body: UpdateConversationRequest }>(
    path,
    { config, schema: { body: UpdateConversationRequestSchema } },
    async (request): Promise<ConversationObject> => {
      refuseToKeep(parts);
      const key = keyOf(request);
      const metadata = JSON.stringify(request.body.metadata ?? {});
      return toObject(known(await conversations.setMetadata(key, metadata), key));
    },
  );

  app.delete<{ Params: ConversationId }>(path, { config }, async (request): Promise<DeletedConversation> => {
    const key = keyOf(request);
    if (!(await conversations.delete(key))) throw unknownConversation(key.id, 'conversation_id');
    return { id: key.id, object: 'conversation.deleted', deleted: true };
  });
}

export function keyOf(request: FastifyRequest<{ Params: ConversationId }>): ConversationKey {
  return { ...keptScopeOf(request), id: request.params.conversation_id };
}

/** @throws {RequestError} for null: `request.not_found` */
export function known<Found>(found: Found | null, { id }: ConversationKey): Found {
  if (found === null) throw unknownConversation(id, 'conversation_id');
  return found;
}

/**
 * Items in stored form: checked now, so that no later request is refused because of them.
 * @throws {RequestError}
 */
export async function itemsToAdd(
  request: FastifyRequest,
  items: readonly ResponseInputItem[],
  parts: RouteParts,
): Promise<ConversationItem[]> {
  refuseToKeep(parts);
  const kept = { scope: keptScopeOf(request), memory: keptMemoryOf(request, parts) };
  const resolved = (await resolveReferences(items, kept, parts, 'items')) ?? items;
  toChatMessages(resolved, new LeftOut(), 'items');
  return newItems(resolved, new Set(), 'items').map(toStored);
}

/** @throws {RequestError} unless the items were added */
export function refuse(result: AddResult, key: ConversationKey, parts: RouteParts): void {
  if (result !== 'added') throw refusal(result, key, parts);
}

function refusal(
  result: Exclude<AddResult, 'added'>,
  { id }: ConversationKey,
  { store: { conversations } }: RouteParts,
): RequestError {
  const { maxItems, maxTextBytes } = conversations.limits;
  switch (result) {
    case 'unknown':
      return unknownConversation(id, 'conversation_id');
    case 'taken':
      return conflict('items', 'The conversation already has an item with an id of `items`. Send only new items');
    case 'full':
      return conflict(
        'items',
        `The conversation is full: at most ${maxItems} items and ${maxTextBytes} bytes fit, within the space of --store-responses-megabytes. Delete items, or start another conversation`,
      );
    default:
      return result satisfies never;
  }
}

function refuseToKeep({ keepsAnswers }: RouteParts): void {
  if (!keepsAnswers)
    throw new RequestError('request.unsupported', `Conversations are not supported: ${NO_CONVERSATIONS}`);
}

export function toObject({ id, createdAt, metadata }: Conversation): ConversationObject {
  return {
    id,
    object: 'conversation',
    created_at: Math.floor(createdAt / 1000),
    metadata: JSON.parse(metadata) as Record<string, string>,
  };
}
