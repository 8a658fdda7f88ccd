import type { SessionObject } from '@trainyard/sdk';

const NAME = 'trainyard-last-key';

interface LastKey {
  readonly name: string;
  /** Unix seconds; null: never. */
  readonly expiresAt: number | null;
}

/** Remembers the signed-in key, so that the sign-in page can give the reason after it ends. */
export function rememberKey({ name, expires_at: expiresAt }: NonNullable<SessionObject['key']>): void {
  localStorage.setItem(NAME, JSON.stringify({ name, expiresAt } satisfies LastKey));
}

/** Called at sign-out, which needs no reason. */
export function forgetKey(): void {
  localStorage.removeItem(NAME);
}

/** The key that was signed in and has ended; null after a sign-out. */
export function lastKey(): LastKey | null {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? 'null') as LastKey | null;
  } catch {
    return null;
  }
}
