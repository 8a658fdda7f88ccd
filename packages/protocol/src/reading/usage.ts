import Type, { type Static } from 'typebox';
import { nullable } from '../shape/schema.ts';

/** Latest second of a valid day. */
const LATEST = 4_102_444_800;
const Parts = Type.Enum(['project', 'key', 'model', 'kind', 'day']);

export const UsageQuerySchema = Type.Object({
  by: Type.Optional(
    Type.Union([Parts, Type.Array(Parts, { maxItems: 5 })], {
      description: 'What the usage is told apart by; several times for several. Default: nothing, which is one sum.',
    }),
  ),
  from: Type.Optional(
    Type.Integer({ minimum: 0, maximum: LATEST, description: 'Unix seconds; default: 30 days ago.' }),
  ),
  to: Type.Optional(
    Type.Integer({ minimum: 0, maximum: LATEST, description: 'Unix seconds, exclusive; default: now.' }),
  ),
});
export type UsageQuery = Static<typeof UsageQuerySchema>;

const UsageGroupSchema = Type.Object(
  {
    project: Type.Optional(nullable(Type.String(), { description: 'As the requests said; null: they said none.' })),
    key_id: Type.Optional(Type.String()),
    key_name: Type.Optional(nullable(Type.String(), { description: 'Null when the key is not known any more.' })),
    model: Type.Optional(Type.String()),
    kind: Type.Optional(Type.Enum(['chat', 'completion', 'training'])),
    day: Type.Optional(Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'YYYY-MM-DD, UTC.' })),
    num_requests: Type.Integer({ minimum: 0, description: 'A job that trains is one.' }),
    prompt_tokens: Type.Integer({ minimum: 0, description: 'Of training: tokens that the trained ones stand behind.' }),
    completion_tokens: Type.Integer({ minimum: 0, description: 'Sampled; of training, trained.' }),
  },
  { title: 'UsageGroup', description: 'It has those parts that were asked for.' },
);
export type UsageGroupObject = Static<typeof UsageGroupSchema>;

export const UsageListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    from: Type.Integer({ description: 'Unix seconds.' }),
    to: Type.Integer({ description: 'Unix seconds.' }),
    data: Type.Array(UsageGroupSchema, { description: 'At most 10,000.' }),
    has_more: Type.Boolean({ description: 'Whether there would be more: ask for a shorter time, or by less.' }),
  },
  { title: 'UsageList' },
);
export type UsageListObject = Static<typeof UsageListSchema>;
