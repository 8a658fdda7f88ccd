import Type, { type Static } from 'typebox';

import { CreatedSchema } from '../inference/chat-response.ts';
import { nullable } from '../shape/schema.ts';

/** GET /v1/models: models that can be sampled. */

/** Members for clients of that API, in addition to OpenAI's. */
const ANTHROPIC = 'Only for requests with the header `anthropic-version`.';

const ModelPermissionSchema = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('model_permission'),
    created: CreatedSchema,
    allow_create_engine: Type.Literal(false),
    allow_sampling: Type.Literal(true),
    allow_logprobs: Type.Literal(true),
    allow_search_indices: Type.Literal(false),
    allow_view: Type.Literal(true),
    allow_fine_tuning: Type.Boolean({ description: 'True if the base model can be trained.' }),
    organization: Type.Literal('*'),
    group: Type.Null(),
    is_blocking: Type.Literal(false),
  },
  { title: 'ModelPermission' },
);
export type ModelPermission = Static<typeof ModelPermissionSchema>;

export const ModelCardSchema = Type.Object(
  {
    id: Type.String({ description: 'Name to use as `model` of requests.' }),
    object: Type.Literal('model'),
    created: CreatedSchema,
    owned_by: Type.String(),
    root: Type.String({ description: 'Model of which this is a version.' }),
    parent: nullable(Type.String(), { description: 'Id of the base model, for a trained model.' }),
    max_model_len: Type.Integer({ minimum: 1, description: 'Maximum sequence length (prompt and reply), in tokens.' }),
    trainable: Type.Boolean({ description: 'True if its base model can be trained here.' }),
    permission: Type.Array(ModelPermissionSchema),
    type: Type.Optional(Type.Literal('model', { description: ANTHROPIC })),
    display_name: Type.Optional(Type.String({ description: `The id. ${ANTHROPIC}` })),
    created_at: Type.Optional(Type.String({ description: `\`created\` in the form of RFC 3339. ${ANTHROPIC}` })),
  },
  { title: 'ModelCard' },
);
export type ModelCard = Static<typeof ModelCardSchema>;

export const ModelListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ModelCardSchema, { description: 'The base model, then each trained model and its checkpoints.' }),
    has_more: Type.Optional(Type.Literal(false, { description: ANTHROPIC })),
    first_id: Type.Optional(nullable(Type.String(), { description: ANTHROPIC })),
    last_id: Type.Optional(nullable(Type.String(), { description: ANTHROPIC })),
  },
  { title: 'ModelList' },
);
export type ModelList = Static<typeof ModelListSchema>;
