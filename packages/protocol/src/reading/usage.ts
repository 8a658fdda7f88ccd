import Type, { type Static } from 'typebox';
import { nullable } from '../shape/schema.ts';

/** Latest second of a valid day. */
const LATEST = 4_102_444_800;
const Parts = Type.Enum(['project', 'key', 'model', 'kind', 'day']);
const Kinds = Type.Enum(['chat', 'completion', 'training']);
const MAX_NAME_CHARACTERS = 512;

export const UsageQuerySchema = Type.Object({
  by: Type.Optional(
    Type.Union([Parts, Type.Array(Parts, { maxItems: 5 })], {
      description: 'Group the usage by this. Repeat it to group by several. Default: one total.',
    }),
  ),
  from: Type.Optional(
    Type.Integer({ minimum: 0, maximum: LATEST, description: 'Unix seconds; default: 30 days ago.' }),
  ),
  to: Type.Optional(
    Type.Integer({ minimum: 0, maximum: LATEST, description: 'Unix seconds, exclusive; default: now.' }),
  ),
  project: Type.Optional(
    Type.String({
      maxLength: MAX_NAME_CHARACTERS,
      description: 'Only usage of this project. Empty: only usage of no project.',
    }),
  ),
  key: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_NAME_CHARACTERS,
      description: 'Only usage of this key, or of all keys with this name.',
    }),
  ),
  model: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_NAME_CHARACTERS,
      description: 'Only usage of models with this text in their name, in upper or lower case.',
    }),
  ),
  kind: Type.Optional(
    Type.Union([Kinds, Type.Array(Kinds, { minItems: 1, maxItems: 3 })], {
      description: 'Only usage of this kind. Repeat it for several.',
    }),
  ),
  fold_steps: Type.Optional(
    Type.Boolean({ description: 'Count all steps of a model as one. Default false: each step is a model.' }),
  ),
});
export type UsageQuery = Static<typeof UsageQuerySchema>;

const UsageGroupSchema = Type.Object(
  {
    project: Type.Optional(
      nullable(Type.String(), {
        description: 'Project named in the requests, or else that of the trained model; null if there is neither.',
      }),
    ),
    key_id: Type.Optional(Type.String()),
    key_name: Type.Optional(nullable(Type.String(), { description: 'Null if the key no longer exists.' })),
    model: Type.Optional(Type.String()),
    num_steps: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'With `fold_steps` and `by=model`: number of steps in this group. 0 for base models and training.',
      }),
    ),
    kind: Type.Optional(Kinds),
    day: Type.Optional(Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'YYYY-MM-DD, UTC.' })),
    num_requests: Type.Integer({ minimum: 0, description: 'Number of requests. A training job counts as one.' }),
    prompt_tokens: Type.Integer({
      minimum: 0,
      description: 'Prompt tokens; for training, the context of the trained tokens.',
    }),
    completion_tokens: Type.Integer({ minimum: 0, description: 'Sampled tokens; for training, trained tokens.' }),
  },
  { title: 'UsageGroup', description: 'Usage of one group. Has the fields named in `by`.' },
);
export type UsageGroupObject = Static<typeof UsageGroupSchema>;

export const UsageListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    from: Type.Integer({ description: 'Unix seconds.' }),
    to: Type.Integer({ description: 'Unix seconds.' }),
    data: Type.Array(UsageGroupSchema, { description: 'At most 10,000.' }),
    has_more: Type.Boolean({
      description: 'True if there are more rows. Request a shorter period, or group by fewer fields.',
    }),
  },
  { title: 'UsageList' },
);
export type UsageListObject = Static<typeof UsageListSchema>;
