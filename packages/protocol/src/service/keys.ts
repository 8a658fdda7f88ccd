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
  requests_per_minute: 'Maximum number of requests per minute to routes that sample or queue work.',
  tokens_per_minute: 'Maximum number of prompt and completion tokens per minute.',
  max_requests_in_flight: 'Maximum number of concurrent sampling requests.',
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
    description: 'Limits of the key, over all processes of the service. Omitted limits stay unchanged.',
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
  { title: 'KeyLimits', description: 'Limits of the key, over all processes of the service.' },
);
export type KeyLimitsObject = Static<typeof KeyLimitsSchema>;

export const CreateKeyRequestSchema = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 128,
      description:
        'Readable name of the key, such as `alice@laptop`. Must not contain `/`, `:` or control characters, or be blank.',
    }),
    scopes: KeyScopesSchema('Scopes of the key: `inference` samples, `training` trains, `admin` allows everything.'),
    entity: Type.Optional(
      nullable(Type.String({ minLength: 1, maxLength: 128 }), {
        description:
          "Owner of the key. Default: the caller's entity. Another entity needs a key of the service's own entity, and is created if it does not exist.",
      }),
    ),
    expires_at: Type.Optional(
      nullable(Type.Integer({ minimum: 1, maximum: LATEST_EXPIRY }), {
        description: 'Expiry time in Unix seconds; must be in the future. Default: never.',
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
  id: Type.String({ description: 'Public name of the key. Not a secret.' }),
  object: Type.Literal('api_key'),
  name: Type.String(),
  entity: Type.String(),
  scopes: KeyScopesSchema('Scopes of the key. `admin` includes the others.'),
  limits: KeyLimitsSchema,
  hint: nullable(Type.String(), {
    description: 'First characters of the secret; null if the secret was set in the configuration.',
  }),
  is_service_key: Type.Boolean({
    description: 'True for the first key of the service, generated or configured. A newly configured key replaces it.',
  }),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
  last_used_at: nullable(Type.Integer(), {
    description: 'Last authorized request, within a minute, in Unix seconds; null: never.',
  }),
  expires_at: nullable(Type.Integer(), { description: 'Unix seconds; null: never.' }),
  revoked_at: nullable(Type.Integer(), { description: 'Unix seconds; null if it is not revoked.' }),
};

export const ApiKeySchema = Type.Object(API_KEY, { title: 'ApiKey' });
export type ApiKeyObject = Static<typeof ApiKeySchema>;

export const CreatedKeySchema = Type.Object(
  {
    ...API_KEY,
    secret: nullable(Type.String(), {
      description:
        'Secret for `Authorization: Bearer`. Shown only once: null if the answer is repeated for an `Idempotency-Key`.',
    }),
  },
  { title: 'CreatedKey' },
);
export type CreatedKeyObject = Static<typeof CreatedKeySchema>;

export const ApiKeyListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ApiKeySchema, { description: 'Oldest first, including revoked and expired keys.' }),
  },
  { title: 'ApiKeyList' },
);
export type ApiKeyList = Static<typeof ApiKeyListSchema>;
