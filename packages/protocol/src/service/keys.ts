import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';

/** POST and GET /v1/keys, POST and DELETE /v1/keys/{key_id}: access to the service, by scopes and limits. */

const KEY_SCOPES = ['inference', 'training', 'admin'] as const;
const KeyScopesSchema = (description: string) => Type.Array(Type.Enum([...KEY_SCOPES]), { minItems: 1, description });

/** End of the year 9999; later ones are no dates. */
const LATEST_EXPIRY = 253_402_300_799;

const MAX_REQUESTS = 1_000_000;
const MAX_TOKENS = 1_000_000_000;

const LIMIT_WORDS = {
  requests_per_minute: 'Requests that may begin in a minute: of routes that sample, and of those that queue work.',
  tokens_per_minute: 'Tokens that requests may use in a minute, prompts and completions together.',
  max_requests_in_flight: 'Requests to sample that may be in flight at a time.',
};

const changeOf = (name: keyof typeof LIMIT_WORDS, maximum: number) =>
  Type.Optional(
    nullable(Type.Integer({ minimum: 1, maximum }), { description: `${LIMIT_WORDS[name]} Null: no limit.` }),
  );

export const KeyLimitsRequestSchema = Type.Object(
  {
    requests_per_minute: changeOf('requests_per_minute', MAX_REQUESTS),
    tokens_per_minute: changeOf('tokens_per_minute', MAX_TOKENS),
    max_requests_in_flight: changeOf('max_requests_in_flight', MAX_REQUESTS),
  },
  {
    additionalProperties: false,
    description: 'How much the key may use, over all processes of the service. What is left out stays as it is.',
  },
);
export type KeyLimitsRequest = Static<typeof KeyLimitsRequestSchema>;

const limitOf = (name: keyof typeof LIMIT_WORDS) =>
  nullable(Type.Integer(), { description: `${LIMIT_WORDS[name]} Null: no limit.` });

export const KeyLimitsSchema = Type.Object(
  {
    requests_per_minute: limitOf('requests_per_minute'),
    tokens_per_minute: limitOf('tokens_per_minute'),
    max_requests_in_flight: limitOf('max_requests_in_flight'),
  },
  { title: 'KeyLimits', description: 'How much the key may use, over all processes of the service.' },
);
export type KeyLimitsObject = Static<typeof KeyLimitsSchema>;

export const CreateKeyRequestSchema = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 128,
      description:
        'What the key is for, for people. Without `/`, `:`, `@` and control characters, and not `.` or `..`.',
    }),
    scopes: KeyScopesSchema('What the key may do: `inference` samples, `training` trains, `admin` does everything.'),
    entity: Type.Optional(
      nullable(Type.String({ minLength: 1, maxLength: 128 }), {
        description:
          "Whose key it is. Default: the caller's entity. Another one, made when absent, takes a key of the service's own entity.",
      }),
    ),
    expires_at: Type.Optional(
      nullable(Type.Integer({ minimum: 1, maximum: LATEST_EXPIRY }), {
        description: 'When it stops being valid, Unix seconds; it must lie ahead. Default: never.',
      }),
    ),
    limits: Type.Optional(nullable(KeyLimitsRequestSchema, { description: 'Default: none.' })),
  },
  { title: 'CreateKeyRequest', additionalProperties: false },
);
export type CreateKeyRequest = Static<typeof CreateKeyRequestSchema>;

export const UpdateKeyRequestSchema = Type.Object(
  { limits: KeyLimitsRequestSchema },
  { title: 'UpdateKeyRequest', additionalProperties: false },
);
export type UpdateKeyRequest = Static<typeof UpdateKeyRequestSchema>;

const API_KEY = {
  id: Type.String({ description: 'Names the key for everyone; it is no secret.' }),
  object: Type.Literal('api_key'),
  name: Type.String(),
  entity: Type.String(),
  scopes: KeyScopesSchema('What the key may do; `admin` includes the others.'),
  limits: KeyLimitsSchema,
  hint: nullable(Type.String(), {
    description: 'How the secret begins; null for a secret that was chosen in the configuration.',
  }),
  is_service_key: Type.Boolean({
    description:
      "Whether it is the service's own first key, made up or configured, which the next configured one replaces.",
  }),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
  expires_at: nullable(Type.Integer(), { description: 'Unix seconds; null: never.' }),
  revoked_at: nullable(Type.Integer(), { description: 'Unix seconds; null: it is not revoked.' }),
};

export const ApiKeySchema = Type.Object(API_KEY, { title: 'ApiKey' });
export type ApiKeyObject = Static<typeof ApiKeySchema>;

export const CreatedKeySchema = Type.Object(
  {
    ...API_KEY,
    secret: nullable(Type.String(), {
      description:
        'What `Authorization: Bearer` takes. It is shown once: null when the answer is repeated for an `Idempotency-Key`.',
    }),
  },
  { title: 'CreatedKey' },
);
export type CreatedKeyObject = Static<typeof CreatedKeySchema>;

export const ApiKeyListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ApiKeySchema, { description: 'Oldest first, revoked and expired ones included.' }),
  },
  { title: 'ApiKeyList' },
);
export type ApiKeyList = Static<typeof ApiKeyListSchema>;
