import { createHmac, createSecretKey, hash, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * Secret shared by engines and their callers. It never crosses the network; requests have a code that
 * requires it (HMAC-SHA-256), and each code can be used once.
 */
export class EngineSecret {
  /** A key object, because converting bytes for each code would take five times as long as the code. */
  readonly #key: KeyObject;

  constructor(value: string) {
    this.#key = createSecretKey(hash('sha256', value, 'buffer'));
  }

  /** Code over these parts, including their boundaries. */
  codeOf(...parts: readonly string[]): string {
    const text = parts.map((part) => `${part.length}:${part}`).join('');
    return createHmac('sha256', this.#key).update(text).digest('base64url');
  }

  /** Compares in constant time. */
  isCodeOf(code: string, ...parts: readonly string[]): boolean {
    const [given, expected] = [Buffer.from(code), Buffer.from(this.codeOf(...parts))];
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}

export function nonce(): string {
  return randomBytes(18).toString('base64url');
}

export function digestOfBody(body: string | Uint8Array): string {
  return hash('sha256', body, 'base64url');
}
