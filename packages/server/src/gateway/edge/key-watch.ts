import type { FastifyRequest } from 'fastify';
import type { Store } from '@trainyard/store';

import { isKeyValid } from './valid-key.ts';

/** Maximum delay between the end of a key or session and the end of its answers. */
const INTERVAL_MS = 500;

/** Credential of a request: a key, or the secret of a browser session. */
export type Admission = { readonly keyId: string } | { readonly session: string };

interface Watched {
  readonly admission: Admission;
  readonly requests: Set<FastifyRequest>;
}

/**
 * Ends answers whose key or session is not valid any more: a stream may last for minutes, and another process
 * may revoke the key.
 */
export class KeyWatch {
  readonly #store: Pick<Store, 'keys' | 'signIns'>;
  readonly #clock: () => number;
  readonly #watched = new Map<string, Watched>();
  #isWatching = false;

  constructor(store: Pick<Store, 'keys' | 'signIns'>, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  add(admission: Admission, request: FastifyRequest): void {
    const name = 'keyId' in admission ? `key ${admission.keyId}` : `session ${admission.session}`;
    const watched = this.#watched.get(name) ?? { admission, requests: new Set() };
    const { requests } = watched;
    requests.add(request);
    this.#watched.set(name, watched);
    request.end.onEnd(() => {
      requests.delete(request);
      if (requests.size === 0 && this.#watched.get(name) === watched) this.#watched.delete(name);
    });
    if (!this.#isWatching) this.#lookLater();
  }

  #lookLater(): void {
    this.#isWatching = true;
    setTimeout(() => void this.#look(), INTERVAL_MS).unref();
  }

  async #look(): Promise<void> {
    for (const { admission, requests } of this.#watched.values()) {
      if (await this.#isValid(admission)) continue;
      for (const { raw } of requests) raw.socket.destroy();
    }
    if (this.#watched.size > 0) this.#lookLater();
    else this.#isWatching = false;
  }

  async #isValid(admission: Admission): Promise<boolean> {
    try {
      // A session ends with its key.
      if ('session' in admission) return (await this.#store.signIns.findSession(admission.session)) !== null;
      const key = await this.#store.keys.get(admission.keyId);
      return key !== null && isKeyValid(key, this.#clock());
    } catch {
      // The store is busy or closing: the next check follows.
      return true;
    }
  }
}
