import Type, { type Static, type TObject, type TSchema, type TSchemaOptions } from 'typebox';

/** A field that may be left out or be `null`; both mean its default. */
export function optionalNullable<T extends TSchema>(schema: T) {
  return Type.Optional(Type.Union([schema, Type.Null()]));
}

/** A value of an answer that is always there and may be `null`. */
export function nullable<T extends TSchema>(schema: T, options: TSchemaOptions = {}) {
  return Type.Union([schema, Type.Null()], options);
}

/**
 * A step that a client names. Larger ones are numbers that JavaScript reads as their neighbours: they would be answered, and looked for, as another step; and from
 * 2^63 on no database has a column for them.
 */
export const NamedStepSchema = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** A JSON object whose members are passed on as they are. */
export const JsonObjectSchema = Type.Unsafe<Record<string, unknown>>({ type: 'object' });

/** Text without halves of surrogate pairs, for names that are stored: no database can hold such a half, and each would be the same U+FFFD. Readers
 * of the patterns may go by characters or by their halves. */
export const WELL_FORMED_PATTERN = '^(?:[^\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$';

/** Such a character, besides those that separate the parts of a model name (`/`, `:`, `@`) and control characters. @param others excluded too */
const nameCharacter = (others: string): string =>
  `(?:[^${others}/:@\\u0000-\\u001f\\u007f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])`;

/** Such text of these characters, and neither `.` nor `..`, which are steps in a URL. Written without look-ahead, which some readers do not have. */
export const NAME_PATTERN = `^(?:\\.*${nameCharacter('.')}${nameCharacter('')}*|\\.{3,})$`;

export const PageQuerySchema = Type.Object({
  after: Type.Optional(
    Type.String({
      description: 'Id of the last item already seen; the page begins behind it. It may be deleted meanwhile.',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'The most items of the page.' }),
  ),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { description: 'Default `asc`, the oldest first.' })),
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

/** The schema of `ListPage<Item>`. */
export function listPageSchema(title: string, item: TObject) {
  return Type.Object(
    {
      object: Type.Literal('list'),
      data: Type.Array(item),
      first_id: nullable(Type.String()),
      last_id: nullable(Type.String(), { description: 'What `after` of the next page is.' }),
      has_more: Type.Boolean({ description: 'Whether there is a next page.' }),
    },
    { title },
  );
}
