import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * The secret that engines and those who ask them share. It never crosses the network: what does is a code over the request that only
 * who has it can make (HMAC-SHA-256), and each can be used once.
 */
export class EngineSecret {
  readonly #key: Buffer;

  constructor(value: string) {
    this.#key = createHash('sha256').update(value).digest();
  }

  /** The code over these parts; a part that ends elsewhere is another one. */
  codeOf(...parts: readonly string[]): string {
    const hmac = createHmac('sha256', this.#key);
    for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part);
    return hmac.digest('base64url');
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
  return createHash('sha256').update(body).digest('base64url');
}
