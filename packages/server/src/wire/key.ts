import type { ApiKeyObject } from '@trainyard/protocol';
import type { ApiKey } from '@trainyard/store';

/** A key as clients see it. */
export function toKeyObject(key: ApiKey): ApiKeyObject {
  return {
    id: key.id,
    object: 'api_key',
    name: key.name,
    entity: key.entity,
    scopes: key.scopes,
    hint: key.hint,
    is_service_key: key.isServiceKey,
    created_at: Math.floor(key.createdAt / 1000),
    expires_at: key.expiresAt === null ? null : Math.floor(key.expiresAt / 1000),
    revoked_at: key.revokedAt === null ? null : Math.floor(key.revokedAt / 1000),
  };
}
