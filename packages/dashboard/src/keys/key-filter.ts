import type { ApiKeyObject } from '@trainyard/sdk';

export const KEY_STATES = ['valid', 'expired', 'revoked'] as const;

/** @param now milliseconds since the epoch, by the clock of the service */
export function stateOfKey(
  { revoked_at: revokedAt, expires_at: expiresAt }: Pick<ApiKeyObject, 'revoked_at' | 'expires_at'>,
  now: number,
): (typeof KEY_STATES)[number] {
  if (revokedAt !== null) return 'revoked';
  return expiresAt !== null && expiresAt * 1000 <= now ? 'expired' : 'valid';
}

/** Keys that match the address: `state`, `scope` (of keys that have it by name), and `q`, a part of the name. */
export function shownKeys(keys: readonly ApiKeyObject[], parameters: URLSearchParams, now: number): ApiKeyObject[] {
  const [state, scope] = [parameters.get('state') ?? '', parameters.get('scope') ?? ''];
  const search = (parameters.get('q') ?? '').trim().toLowerCase();
  return keys.filter(
    (key) =>
      (state === '' || stateOfKey(key, now) === state) &&
      (scope === '' || key.scopes.some((own) => own === scope)) &&
      key.name.toLowerCase().includes(search),
  );
}
