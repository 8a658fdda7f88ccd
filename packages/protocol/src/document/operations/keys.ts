import {
  ApiKeyListSchema,
  ApiKeySchema,
  CreatedKeySchema,
  CreateKeyRequestSchema,
  UpdateKeyRequestSchema,
} from '../../service/keys.ts';
import { BODY, IDEMPOTENCY, KEY, type Operation } from './operation-parts.ts';

/** API keys. */
export const KEY_OPERATIONS: readonly Operation[] = [
  {
    id: 'createKey',
    method: 'post',
    paths: ['/v1/keys'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Create a key',
    description:
      "Only this answer contains the secret. A key of the service's own entity may create keys for other entities, which have their own models and jobs.",
    isIdempotent: true,
    body: CreateKeyRequestSchema,
    answer: CreatedKeySchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'listKeys',
    method: 'get',
    paths: ['/v1/keys'],
    scope: 'admin',
    tag: 'Service',
    summary: 'List the keys, without their secrets',
    description: "Lists the keys of the caller's entity. A key of the service's own entity sees all keys.",
    answer: ApiKeyListSchema,
    faults: KEY,
  },
  {
    id: 'updateKey',
    method: 'post',
    paths: ['/v1/keys/{key_id}'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Change the limits of a key',
    description: 'The limits apply from the next request, in every process. Past usage still counts.',
    pathParameters: { key_id: 'Id of the key.' },
    isIdempotent: true,
    body: UpdateKeyRequestSchema,
    answer: ApiKeySchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'revokeKey',
    method: 'delete',
    paths: ['/v1/keys/{key_id}'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Revoke a key',
    description:
      'The key is refused immediately, and its running streams end within one second. Revoking a revoked key has no effect.',
    pathParameters: { key_id: 'Id of the key.' },
    isIdempotent: true,
    answer: ApiKeySchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
];
