/** The key of a server: sent as it is, or exchanged for a token that lasts a while. */
export interface ApiKey {
  /** The value of `X-API-Key`; null: none. */
  current(): Promise<string | null>;
  /** The server says that the value is over. */
  renew(): Promise<void>;
}

/** Where tokens come from, in exchange for the key. */
export type Exchange = (key: string) => Promise<string>;

/** A key that is exchanged once a server asks for it, and anew after half of a token's life. */
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

  /** From now on tokens are sent. */
  async useTokens(): Promise<void> {
    this.#isExchanged = true;
    await this.renew();
  }

  async current(): Promise<string | null> {
    if (this.#isExchanged && this.#now() >= this.#staleAt) {
      // The token is good for as long again: a failed exchange shows by the answer of the request.
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

/** Whether a 401 means a token that is over rather than a wrong key. */
export function isStaleToken(headers: Headers): boolean {
  return headers.get('www-authenticate')?.includes('error="invalid_token"') ?? false;
}

/** The middle of a JWT's life, Unix ms; null where it does not say. */
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
