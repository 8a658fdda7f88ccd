import {
  ConversationItemListSchema,
  ConversationItemQuerySchema,
  ConversationItemSchema,
  ConversationSchema,
  CreateConversationRequestSchema,
  CreateItemsRequestSchema,
  DeletedConversationSchema,
  ItemQuerySchema,
  UpdateConversationRequestSchema,
} from '../../inference/conversations.ts';
import { BODY, IDEMPOTENCY, KEY, type Operation, WRITES } from './operation-parts.ts';

const CONVERSATION_ID = { conversation_id: 'Id of a conversation.' };
const ITEM_ID = { ...CONVERSATION_ID, item_id: 'Id of one of its items.' };
const UNKNOWN = ['request.not_found'];
const ADDS = [...BODY, ...IDEMPOTENCY, 'request.conflict', 'request.unsupported', 'request.not_found'];
const OWN =
  'A conversation is visible only to its own key, or to keys of the same owner in requests that name the same project. For others it does not exist.';

const shared = { scope: 'inference', tag: 'Inference' } as const;

export const CONVERSATION_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    id: 'createConversation',
    method: 'post',
    paths: ['/v1/conversations'],
    summary: 'Create a conversation',
    description:
      'A list of items. A response with `conversation` reads them before its `input` and appends its own items. A conversation is kept for `--store-responses` after its last use; with `off` none can be created.',
    isIdempotent: true,
    body: CreateConversationRequestSchema,
    answer: ConversationSchema,
    faults: [...KEY, ...ADDS],
  },
  {
    ...shared,
    id: 'getConversation',
    method: 'get',
    paths: ['/v1/conversations/{conversation_id}'],
    summary: 'Read a conversation',
    description: `Returns the conversation without its items. ${OWN}`,
    pathParameters: CONVERSATION_ID,
    answer: ConversationSchema,
    faults: [...KEY, ...UNKNOWN],
  },
  {
    ...shared,
    id: 'updateConversation',
    method: 'post',
    paths: ['/v1/conversations/{conversation_id}'],
    summary: 'Change the metadata of a conversation',
    description: `The new metadata replaces the old one; null removes it. ${OWN}`,
    pathParameters: CONVERSATION_ID,
    body: UpdateConversationRequestSchema,
    answer: ConversationSchema,
    faults: [...KEY, ...BODY, ...WRITES, ...UNKNOWN, 'request.unsupported'],
  },
  {
    ...shared,
    id: 'deleteConversation',
    method: 'delete',
    paths: ['/v1/conversations/{conversation_id}'],
    summary: 'Delete a conversation',
    description: `Deletes the conversation and its items. Kept answers hold their own copies: delete them separately. ${OWN}`,
    pathParameters: CONVERSATION_ID,
    answer: DeletedConversationSchema,
    faults: [...KEY, ...UNKNOWN, ...WRITES],
  },
  {
    ...shared,
    id: 'createConversationItems',
    method: 'post',
    paths: ['/v1/conversations/{conversation_id}/items'],
    summary: 'Add items to a conversation',
    description: `Appends all items or none. Returns the new items in the form in which they are listed. ${OWN}`,
    pathParameters: CONVERSATION_ID,
    query: ItemQuerySchema,
    isIdempotent: true,
    body: CreateItemsRequestSchema,
    answer: ConversationItemListSchema,
    faults: [...KEY, ...ADDS],
  },
  {
    ...shared,
    id: 'listConversationItems',
    method: 'get',
    paths: ['/v1/conversations/{conversation_id}/items'],
    summary: 'List the items of a conversation',
    description: OWN,
    pathParameters: CONVERSATION_ID,
    query: ConversationItemQuerySchema,
    answer: ConversationItemListSchema,
    faults: [...KEY, ...UNKNOWN, 'request.invalid', 'request.unsupported', 'store.cursor_unknown'],
  },
  {
    ...shared,
    id: 'getConversationItem',
    method: 'get',
    paths: ['/v1/conversations/{conversation_id}/items/{item_id}'],
    summary: 'Read an item of a conversation',
    description: OWN,
    pathParameters: ITEM_ID,
    query: ItemQuerySchema,
    answer: ConversationItemSchema,
    faults: [...KEY, ...UNKNOWN, 'request.invalid', 'request.unsupported'],
  },
  {
    ...shared,
    id: 'deleteConversationItem',
    method: 'delete',
    paths: ['/v1/conversations/{conversation_id}/items/{item_id}'],
    summary: 'Delete an item of a conversation',
    description: `Returns the conversation. ${OWN}`,
    pathParameters: ITEM_ID,
    answer: ConversationSchema,
    faults: [...KEY, ...UNKNOWN, ...WRITES],
  },
];
