import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';

/** Kept answers of /v1/responses: reading and deleting them, and the items of their prompts. */

const ItemSchema = Type.Unsafe<Record<string, unknown> & { id: string }>({
  type: 'object',
  properties: { id: { type: 'string' }, type: { type: 'string' } },
  required: ['id', 'type'],
  additionalProperties: true,
});

export const InputItemQuerySchema = Type.Object({
  after: Type.Optional(Type.String({ description: 'Id of the last item already seen; the page begins behind it.' })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'The most items of the page.' }),
  ),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { description: 'Default `desc`, the newest first.' })),
});
export type InputItemQuery = Static<typeof InputItemQuerySchema>;

export const InputItemPageSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ItemSchema, { description: 'Items of the prompt, those of earlier turns included.' }),
    first_id: nullable(Type.String()),
    last_id: nullable(Type.String(), { description: 'What `after` of the next page is.' }),
    has_more: Type.Boolean({ description: 'Whether there is a next page.' }),
  },
  { title: 'InputItemPage' },
);
export type InputItemPage = Static<typeof InputItemPageSchema>;

export const DeletedResponseSchema = Type.Object(
  { id: Type.String(), object: Type.Literal('response'), deleted: Type.Literal(true) },
  { title: 'DeletedResponse' },
);
export type DeletedResponse = Static<typeof DeletedResponseSchema>;
