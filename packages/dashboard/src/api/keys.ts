import { queryOptions } from '@tanstack/react-query';
import type { CreatedKeyObject, CreateKeyRequest, KeyLimitsRequest } from '@trainyard/sdk';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

/** Oldest first, revoked and expired ones included. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: ({ signal }) => client.keys.list({ signal }),
});

/** @returns the key with its secret, which is shown only once */
export async function createKey(key: CreateKeyRequest): Promise<CreatedKeyObject> {
  const created = await client.keys.create(key);
  await queryClient.invalidateQueries({ queryKey: keysQuery.queryKey });
  return created;
}

export async function limitKey(keyId: string, limits: KeyLimitsRequest): Promise<void> {
  await client.keys.update(keyId, { limits });
  await queryClient.invalidateQueries({ queryKey: keysQuery.queryKey });
}

export async function revokeKey(keyId: string): Promise<void> {
  await client.keys.revoke(keyId);
  await queryClient.invalidateQueries({ queryKey: keysQuery.queryKey });
}
