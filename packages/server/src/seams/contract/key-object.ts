import type { ApiKeyObject, KeyLimitsObject, KeyLimitsRequest } from '@trainyard/protocol';
import type { ApiKey, KeyLimits } from '@trainyard/store';

export const KEY_LIMIT_NAMES = {
  requestsPerMinute: 'requests_per_minute',
  tokensPerMinute: 'tokens_per_minute',
  maxRequestsInFlight: 'max_requests_in_flight',
} as const satisfies Record<keyof KeyLimits, keyof KeyLimitsObject>;

export function toKeyObject(key: ApiKey): ApiKeyObject {
  return {
    id: key.id,
    object: 'api_key',
    name: key.name,
    entity: key.entity,
    scopes: key.scopes,
    limits: toLimitsObject(key.limits),
    hint: key.hint,
    is_service_key: key.isServiceKey,
    created_at: Math.floor(key.createdAt / 1000),
    last_used_at: key.lastUsedAt === null ? null : Math.floor(key.lastUsedAt / 1000),
    expires_at: key.expiresAt === null ? null : Math.floor(key.expiresAt / 1000),
    revoked_at: key.revokedAt === null ? null : Math.floor(key.revokedAt / 1000),
  };
}

function toLimitsObject({ requestsPerMinute, tokensPerMinute, maxRequestsInFlight }: KeyLimits): KeyLimitsObject {
  return {
    requests_per_minute: requestsPerMinute,
    tokens_per_minute: tokensPerMinute,
    max_requests_in_flight: maxRequestsInFlight,
  };
}

/** Limits that change; null removes one. */
export function toLimitChanges(request: KeyLimitsRequest | null | undefined): Partial<KeyLimits> {
  const changes: { -readonly [Name in keyof KeyLimits]?: KeyLimits[Name] } = {};
  for (const [name, asked] of Object.entries(KEY_LIMIT_NAMES) as Entries<typeof KEY_LIMIT_NAMES>) {
    const limit = request?.[asked];
    if (limit !== undefined) changes[name] = limit;
  }
  return changes;
}

type Entries<Table> = { [Name in keyof Table]: [Name, Table[Name]] }[keyof Table][];
