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
} from '../inference/conversations.ts';
import { BODY, IDEMPOTENCY, KEY, type Operation, WRITES } from './operation-parts.ts';

const CONVERSATION_ID = { conversation_id: 'Id of a conversation.' };
const ITEM_ID = { ...CONVERSATION_ID, item_id: 'Id of one of its items.' };
const UNKNOWN = ['request.not_found'];
const ADDS = [...BODY, ...IDEMPOTENCY, 'request.conflict', 'request.unsupported', 'request.not_found'];
const OWN =
  'Conversations of other keys count as unknown, unless the keys have one owner and the requests name one project.';

const shared = { scope: 'inference', tag: 'Inference' } as const;

export const CONVERSATION_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    id: 'createConversation',
    method: 'post',
    paths: ['/v1/conversations'],
    summary: 'Create a conversation',
    description:
      'Items that `conversation` of a response puts before its `input`, and to which answers add theirs. A conversation is kept for `--store-responses` after its last use; with `off` none can be created.',
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
    description: `Without its items. ${OWN}`,
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
    description: `Removes it with its items. Kept answers have copies of their own: delete these too. ${OWN}`,
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
    description: `All of them or none, after the last one. Answers with the items as they are listed. ${OWN}`,
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
    description: `Answers with the conversation. ${OWN}`,
    pathParameters: ITEM_ID,
    answer: ConversationSchema,
    faults: [...KEY, ...UNKNOWN, ...WRITES],
  },
];
