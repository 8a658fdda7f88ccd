import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type ApiKeyList,
  type ApiKeyObject,
  type CreatedKeyObject,
  type CreateKeyRequest,
  CreateKeyRequestSchema,
  type UpdateKeyRequest,
  UpdateKeyRequestSchema,
} from '@trainyard/protocol';
import { type ApiKey, NO_LIMITS } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { requireKeyName, requireName } from '../require-name.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { toKeyObject, toLimitChanges } from '../../../seams/contract/key-object.ts';
import { notFound } from '../owned.ts';

/**
 * POST and GET /v1/keys, POST and DELETE /v1/keys/{key_id}. An admin manages the keys of its entity; an admin
 * of the service's own entity manages all, and can create another entity with its first key.
 */
export function keyRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, clock, operatorEntity } = parts;
  const config = { scope: 'admin' } as const;
  const isOperator = (request: FastifyRequest) => callerOf(request).entity === operatorEntity;

  app.post<{ Body: CreateKeyRequest }>(
    '/v1/keys',
    { config, schema: { body: CreateKeyRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<CreatedKeyObject> => {
        const { name, scopes, entity, expires_at: expiresAt, limits } = request.body;
        const caller = callerOf(request);
        requireKeyName(['body', 'name'], name);
        if (entity != null) requireName(['body', 'entity'], entity);
        if (entity != null && entity !== caller.entity && !isOperator(request))
          throw notFound('entity', entity, 'entity');
        if (expiresAt != null && expiresAt * 1000 <= clock()) {
          const msg = `Input should be later than now, ${Math.floor(clock() / 1000)}`;
          throw RequestError.invalid([{ loc: ['body', 'expires_at'], msg, type: 'value_error', input: expiresAt }]);
        }
        const entityId = entity == null ? caller.entityId : (await store.keys.ensureEntity(entity)).id;
        const { secret, ...key } = await store.keys.create({
          entityId,
          name,
          scopes: [...new Set(scopes)],
          expiresAt: expiresAt == null ? null : expiresAt * 1000,
          limits: { ...NO_LIMITS, ...toLimitChanges(limits) },
          // The answer kept for a repeat is stored in plain text, so it lacks the secret.
          completes: (made) => completes({ ...toKeyObject(made), secret: null } satisfies CreatedKeyObject),
        });
        return { ...toKeyObject(key), secret };
      }),
  );

  app.get('/v1/keys', { config }, async (request): Promise<ApiKeyList> => {
    const keys = await store.keys.list(isOperator(request) ? undefined : callerOf(request).entityId);
    return { object: 'list', data: keys.map(toKeyObject) };
  });

  app.post<{ Params: { key_id: string }; Body: UpdateKeyRequest }>(
    '/v1/keys/:key_id',
    { config, schema: { body: UpdateKeyRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (): Promise<ApiKeyObject> => {
        const { id } = await ownedKey(request, request.params.key_id);
        const changed = await store.keys.setLimits(id, toLimitChanges(request.body.limits));
        if (changed === null) throw notFound('key', id, 'key_id');
        return toKeyObject(changed);
      }),
  );

  app.delete<{ Params: { key_id: string } }>('/v1/keys/:key_id', { config }, (request, reply) =>
    answerOnce(store, request, reply, async (): Promise<ApiKeyObject> => {
      const { id } = await ownedKey(request, request.params.key_id);
      await store.keys.revoke(id);
      return toKeyObject(await ownedKey(request, id));
    }),
  );

  async function ownedKey(request: FastifyRequest, keyId: string): Promise<ApiKey> {
    const key = await store.keys.get(keyId);
    if (key !== null && (isOperator(request) || key.entityId === callerOf(request).entityId)) return key;
    throw notFound('key', keyId, 'key_id');
  }
}
