/** Key sent directly, or exchanged for a temporary token. */
export interface ApiKey {
  /** Value of `X-API-Key`; null: none. */
  current(): Promise<string | null>;
  /** Called when the value has expired. */
  renew(): Promise<void>;
}

export type Exchange = (key: string) => Promise<string>;

/** A key exchanged when a server asks for it, and again after half of a token's life. */
export class ExchangedKey implements ApiKey {
  readonly #key: string | null;
  readonly #exchange: Exchange;
  readonly #now: () => number;
  #token: string | null = null;
  #staleAt = Infinity;
  #isExchanged = false;

  /** @param now Unix milliseconds */
  constructor(key: string | null, exchange: Exchange, now: () => number = Date.now) {
    this.#key = key;
    this.#exchange = exchange;
    this.#now = now;
  }

  async useTokens(): Promise<void> {
    this.#isExchanged = true;
    await this.renew();
  }

  async current(): Promise<string | null> {
    if (this.#isExchanged && this.#now() >= this.#staleAt) {
      // The token remains valid as long again: a failed exchange shows in the answer of the request.
      this.#staleAt = this.#now() + 60_000;
      await this.renew().catch(() => undefined);
    }
    return this.#token ?? this.#key;
  }

  async renew(): Promise<void> {
    if (!this.#isExchanged || this.#key === null) return;
    this.#staleAt = Infinity;
    this.#token = null;
    const token = await this.#exchange(this.#key);
    this.#token = token;
    this.#staleAt = halfLife(token) ?? Infinity;
  }
}

/** True if a 401 means an expired token instead of a wrong key. */
export function isStaleToken(headers: Headers): boolean {
  return headers.get('www-authenticate')?.includes('error="invalid_token"') ?? false;
}

/** Middle of a JWT's life, Unix ms; null if unknown. */
function halfLife(token: string): number | null {
  try {
    const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) as {
      iat?: number;
      exp?: number;
    };
    if (payload.iat === undefined || payload.exp === undefined) return null;
    return (payload.iat + payload.exp) * 500;
  } catch {
    return null;
  }
}
