import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';

/** Kept answers of /v1/responses: reading and deletion, and the items of their prompts. */

export const ListedItemSchema = Type.Unsafe<Record<string, unknown> & { id: string }>({
  type: 'object',
  properties: { id: { type: 'string' }, type: { type: 'string' } },
  required: ['id', 'type'],
  additionalProperties: true,
});

export const ResponseQuerySchema = Type.Object({
  stream: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'Stream the events of an answer that was created with `background: true` and `stream: true`.',
    }),
  ),
  starting_after: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: '`sequence_number` of the last event already seen. Default: all events.',
    }),
  ),
});
export type ResponseQuery = Static<typeof ResponseQuerySchema>;

export const InputItemQuerySchema = Type.Object({
  after: Type.Optional(Type.String({ description: 'Id of the last item already seen; the page starts after it.' })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'Maximum number of items per page.' }),
  ),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { description: 'Default `desc`, the newest first.' })),
});
export type InputItemQuery = Static<typeof InputItemQuerySchema>;

export const InputItemPageSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ListedItemSchema, { description: 'Items of the prompt, including those of earlier turns.' }),
    first_id: nullable(Type.String()),
    last_id: nullable(Type.String(), { description: 'Value of `after` for the next page.' }),
    has_more: Type.Boolean({ description: 'True if there is a next page.' }),
  },
  { title: 'InputItemPage' },
);
export type InputItemPage = Static<typeof InputItemPageSchema>;

export const DeletedResponseSchema = Type.Object(
  { id: Type.String(), object: Type.Literal('response'), deleted: Type.Literal(true) },
  { title: 'DeletedResponse' },
);
export type DeletedResponse = Static<typeof DeletedResponseSchema>;
