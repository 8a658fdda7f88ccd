import type { ApiKey } from '@trainyard/store';

export const UNKNOWN_KEY = 'The API key is unknown. Check that it was copied as a whole';

/**
 * Reason to refuse a key. Only the owner of a secret gets it, because a key is found by the hash of its whole
 * secret: ended and unknown keys take the same query.
 */
export function reasonOfEnd({ name, revokedAt, expiresAt }: ApiKey): string {
  const end = revokedAt === null ? `expired on ${minuteOf(expiresAt ?? 0)}` : `was revoked on ${minuteOf(revokedAt)}`;
  return `The key \`${name}\` ${end}. Use another one`;
}

/** `2026-11-27 at 21:04 UTC` */
function minuteOf(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 16).replace('T', ' at ')} UTC`;
}
