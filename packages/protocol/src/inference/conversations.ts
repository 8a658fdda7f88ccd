import Type, { type Static } from 'typebox';

import { nullable, optionalNullable } from '../shape/schema.ts';
import { ListedItemSchema } from './kept-responses.ts';
import { ResponseInputItemSchema } from './responses.ts';

/** /v1/conversations: items that answers continue and add to, in the form of OpenAI's API. */

const MAX_NEW_ITEMS = 20;

const MetadataSchema = Type.Unsafe<Record<string, string>>({
  type: 'object',
  maxProperties: 16,
  propertyNames: { maxLength: 64 },
  additionalProperties: { type: 'string', maxLength: 512 },
  description: 'Up to 16 pairs of a name of at most 64 characters and a string of at most 512.',
});

const NewItemsSchema = Type.Array(ResponseInputItemSchema, {
  maxItems: MAX_NEW_ITEMS,
  description: `Items as in \`input\` of a response, at most ${MAX_NEW_ITEMS}, oldest first.`,
});

export const CreateConversationRequestSchema = Type.Object(
  { items: optionalNullable(NewItemsSchema), metadata: optionalNullable(MetadataSchema) },
  { title: 'CreateConversationRequest', additionalProperties: false },
);
export type CreateConversationRequest = Static<typeof CreateConversationRequestSchema>;

export const UpdateConversationRequestSchema = Type.Object(
  { metadata: nullable(MetadataSchema) },
  { title: 'UpdateConversationRequest', additionalProperties: false },
);
export type UpdateConversationRequest = Static<typeof UpdateConversationRequestSchema>;

export const CreateItemsRequestSchema = Type.Object(
  { items: NewItemsSchema },
  { title: 'CreateItemsRequest', additionalProperties: false },
);
export type CreateItemsRequest = Static<typeof CreateItemsRequestSchema>;

const Include = Type.Union([Type.String(), Type.Array(Type.String())], {
  description:
    'Has no effect: items are returned with everything that is kept. Takes the names of `include` of a response.',
});
const include = { include: Type.Optional(Include), 'include[]': Type.Optional(Include) };

export const ItemQuerySchema = Type.Object(include);
export type ItemQuery = Static<typeof ItemQuerySchema>;

export const ConversationItemQuerySchema = Type.Object({
  after: Type.Optional(Type.String({ description: 'Id of the last item already seen; the page starts after it.' })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'Maximum number of items per page.' }),
  ),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { description: 'Default `desc`, the newest first.' })),
  ...include,
});
export type ConversationItemQuery = Static<typeof ConversationItemQuerySchema>;

export const ConversationSchema = Type.Object(
  {
    id: Type.String({ description: '`conv_` followed by 32 hexadecimal digits.' }),
    object: Type.Literal('conversation'),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    metadata: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
  },
  { title: 'Conversation' },
);
export type ConversationObject = Static<typeof ConversationSchema>;

export const DeletedConversationSchema = Type.Object(
  { id: Type.String(), object: Type.Literal('conversation.deleted'), deleted: Type.Literal(true) },
  { title: 'DeletedConversation' },
);
export type DeletedConversation = Static<typeof DeletedConversationSchema>;

export const ConversationItemSchema = ListedItemSchema;
export type ConversationItemObject = Static<typeof ConversationItemSchema>;

export const ConversationItemListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ListedItemSchema),
    first_id: nullable(Type.String()),
    last_id: nullable(Type.String(), { description: 'Value of `after` for the next page.' }),
    has_more: Type.Boolean({ description: 'True if there is a next page.' }),
  },
  { title: 'ConversationItemList' },
);
export type ConversationItemList = Static<typeof ConversationItemListSchema>;
