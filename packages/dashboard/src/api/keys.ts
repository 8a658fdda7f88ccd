import { queryOptions } from '@tanstack/react-query';
import type { ApiKeyObject, CreatedKeyObject } from '@trainyard/sdk';

import { queryClient } from './query-client.ts';
import { request } from './request.ts';

/** Oldest first, revoked and expired ones included. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: ({ signal }) => request<{ data: readonly ApiKeyObject[] }>('GET', '/keys', { signal }),
});

export interface NewKey {
  readonly name: string;
  readonly scopes: readonly ApiKeyObject['scopes'][number][];
  /** Unix seconds; null: never. */
  readonly expires_at: number | null;
}

/** @returns the key with its secret, which is shown this once */
export async function createKey(key: NewKey): Promise<CreatedKeyObject> {
  const created = await request<CreatedKeyObject>('POST', '/keys', { body: key });
  await queryClient.invalidateQueries({ queryKey: keysQuery.queryKey });
  return created;
}

export async function revokeKey(keyId: string): Promise<void> {
  await request('DELETE', `/keys/${encodeURIComponent(keyId)}`);
  await queryClient.invalidateQueries({ queryKey: keysQuery.queryKey });
}
