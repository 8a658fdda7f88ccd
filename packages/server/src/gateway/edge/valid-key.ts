import type { ApiKey } from '@trainyard/store';

/** True if a key is usable now: neither revoked nor expired. @param now by the store's clock */
export function isKeyValid({ revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>, now: number): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt > now);
}
