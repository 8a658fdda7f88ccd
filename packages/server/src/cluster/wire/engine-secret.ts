import { createHmac, createSecretKey, hash, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * The secret that engines and those who ask them share. It never crosses the network: what does is a code over the request that only
 * who has it can make (HMAC-SHA-256), and each can be used once.
 */
export class EngineSecret {
  /** As an object of its own: from bytes it would be made anew for each code, which takes five times as long as the code. */
  readonly #key: KeyObject;

  constructor(value: string) {
    this.#key = createSecretKey(hash('sha256', value, 'buffer'));
  }

  /** The code over these parts; a part that ends elsewhere is another one. */
  codeOf(...parts: readonly string[]): string {
    const text = parts.map((part) => `${part.length}:${part}`).join('');
    return createHmac('sha256', this.#key).update(text).digest('base64url');
  }

  /** Takes as long whatever is wrong with the code. */
  isCodeOf(code: string, ...parts: readonly string[]): boolean {
    const [given, expected] = [Buffer.from(code), Buffer.from(this.codeOf(...parts))];
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}

/** A name that nobody guesses and that comes once. */
export function nonce(): string {
  return randomBytes(18).toString('base64url');
}

/** A body, as its code goes over it. */
export function digestOfBody(body: string | Uint8Array): string {
  return hash('sha256', body, 'base64url');
}
