import Type, { type Static, type TObject, type TSchema, type TSchemaOptions } from 'typebox';

/** Field that may be omitted or `null`; both mean its default. */
export function optionalNullable<T extends TSchema>(schema: T) {
  return Type.Optional(Type.Union([schema, Type.Null()]));
}

/** Value of an answer that is always present and may be `null`. */
export function nullable<T extends TSchema>(schema: T, options: TSchemaOptions = {}) {
  return Type.Union([schema, Type.Null()], options);
}

/**
 * Step named by a client. JavaScript reads larger numbers as neighbouring ones, so another step would be
 * used; from 2^63 on no database has a column for them.
 */
export const NamedStepSchema = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** JSON object whose members are passed on unchanged. */
export const JsonObjectSchema = Type.Unsafe<Record<string, unknown>>({ type: 'object' });

/**
 * Text without unpaired surrogates, for stored names: no database can hold one, and all would become the same
 * U+FFFD. Pattern engines may work on characters or on code units.
 */
export const WELL_FORMED_PATTERN = '^(?:[^\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$';

export const PageQuerySchema = Type.Object({
  after: Type.Optional(
    Type.String({
      description: 'Id of the last item already seen; the page starts after it. The item may have been deleted since.',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'Maximum number of items per page.' }),
  ),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { description: 'Default `asc`, the oldest first.' })),
});
export type PageQuery = Static<typeof PageQuerySchema>;

/** Events are in order of occurrence; requesting another order is refused rather than ignored. */
export const EventPageQuerySchema = Type.Object({
  after: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  order: Type.Optional(Type.Enum(['asc'])),
});
export type EventPageQuery = Static<typeof EventPageQuerySchema>;

/** Page of a list. The client requests the next with `after = last_id` while `has_more`. */
export interface ListPage<Item extends { id: string }> {
  object: 'list';
  data: Item[];
  first_id: string | null;
  last_id: string | null;
  has_more: boolean;
}

export function listPageSchema(title: string, item: TObject) {
  return Type.Object(
    {
      object: Type.Literal('list'),
      data: Type.Array(item),
      first_id: nullable(Type.String()),
      last_id: nullable(Type.String(), { description: 'Value of `after` for the next page.' }),
      has_more: Type.Boolean({ description: 'True if there is a next page.' }),
    },
    { title },
  );
}
