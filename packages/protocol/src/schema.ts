import Type, { type Static, type TSchema } from 'typebox';

/** A field that may be left out or be `null`; both mean its default. */
export function optionalNullable<T extends TSchema>(schema: T) {
  return Type.Optional(Type.Union([schema, Type.Null()]));
}

/** A JSON object whose members are passed on as they are. */
export const JsonObjectSchema = Type.Unsafe<Record<string, unknown>>({ type: 'object' });

/** A string free of the characters that separate the parts of a model name: `/`, `:`, `@` and control characters. */
export const NAME_PATTERN = '^[^/:@\\u0000-\\u001f\\u007f]+$';

/** Paging of a list: `after` is the id of the last item already seen (exclusive). */
export const PageQuerySchema = Type.Object({
  after: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  order: Type.Optional(Type.Enum(['asc', 'desc'])),
});
export type PageQuery = Static<typeof PageQuerySchema>;

/** Events come in the order in which they happened; asking for another order is refused rather than ignored. */
export const EventPageQuerySchema = Type.Object({
  after: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  order: Type.Optional(Type.Enum(['asc'])),
});
export type EventPageQuery = Static<typeof EventPageQuerySchema>;

/** A page of a list. The client pages on with `after = last_id` while `has_more`. */
export interface ListPage<Item extends { id: string }> {
  object: 'list';
  data: Item[];
  first_id: string | null;
  last_id: string | null;
  has_more: boolean;
}
