import type { ApiKey } from '@trainyard/store';

/** Whether a key can be used now: it was not revoked, and its time is not over. @param now by the clock of the store */
export function isKeyValid({ revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>, now: number): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt > now);
}
