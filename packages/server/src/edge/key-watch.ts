import type { FastifyRequest } from 'fastify';
import type { Store } from '@trainyard/store';

/** How long an answer may go on after its key was revoked or has expired. */
const INTERVAL_MS = 500;

/**
 * Ends answers whose key is not valid any more. A request is checked when it begins; a stream may last for minutes after that, and a key
 * can also be revoked by another process.
 */
export class KeyWatch {
  readonly #store: Pick<Store, 'getKey'>;
  readonly #clock: () => number;
  readonly #requestsOf = new Map<string, Set<FastifyRequest>>();
  #isWatching = false;

  constructor(store: Pick<Store, 'getKey'>, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Watches a request until it is over. */
  add(keyId: string, request: FastifyRequest): void {
    const requests = this.#requestsOf.get(keyId) ?? new Set();
    requests.add(request);
    this.#requestsOf.set(keyId, requests);
    request.end.onEnd(() => {
      requests.delete(request);
      if (requests.size === 0 && this.#requestsOf.get(keyId) === requests) this.#requestsOf.delete(keyId);
    });
    if (!this.#isWatching) this.#lookLater();
  }

  #lookLater(): void {
    this.#isWatching = true;
    setTimeout(() => void this.#look(), INTERVAL_MS).unref();
  }

  async #look(): Promise<void> {
    for (const [keyId, requests] of this.#requestsOf) {
      if (await this.#isValid(keyId)) continue;
      for (const { raw } of requests) raw.socket.destroy();
    }
    if (this.#requestsOf.size > 0) this.#lookLater();
    else this.#isWatching = false;
  }

  async #isValid(keyId: string): Promise<boolean> {
    try {
      const key = await this.#store.getKey(keyId);
      return key !== null && key.revokedAt === null && (key.expiresAt === null || key.expiresAt > this.#clock());
    } catch {
      // The store is busy or closing: it is asked again.
      return true;
    }
  }
}
