import { type AdapterRef, EngineError, type TokenBackend } from '@trainyard/backend';
import { dirname } from 'node:path';

export interface HeldAdapter {
  /**
   * Resolves when the back end has it, like {@link TokenBackend.publish}. @throws {EngineError}
   * engine.adapter_unreadable, and other errors of the back end
   */
  readonly ready: Promise<string | null>;
  /** Ends the hold at the end of the request; called once. */
  release(): void;
}

/**
 * Adapter versions published to a back end. Each is published before the first request that names it, and
 * again when a request names it in another folder; if that fails, again for the next request. A retired one is removed once no request in
 * flight uses it; named again, it stays, or is published again after the removal.
 */
export class Publications {
  readonly #backend: Pick<TokenBackend, 'publish' | 'retire'>;
  readonly #published = new Map<string, Publication>();
  readonly #retirements = new Map<string, Promise<void>>();

  constructor(backend: Pick<TokenBackend, 'publish' | 'retire'>) {
    this.#backend = backend;
  }

  hold(adapter: AdapterRef): HeldAdapter {
    const { digest } = adapter;
    const publication = this.#published.get(digest) ?? this.#publish(adapter);
    if (publication.path !== adapter.path) this.#move(publication, adapter);
    publication.numUsers++;
    publication.isRetired = false;
    const release = (): void => {
      publication.numUsers--;
      this.#dropIdle(digest);
    };
    return { ready: publication.ready, release };
  }

  /**
   * Retires a version. One not published here may have been published by an earlier run of this process, and
   * still be at the back end.
   */
  retire(digest: string): void {
    const publication = this.#published.get(digest);
    if (publication === undefined) {
      this.#giveBack(digest, Promise.resolve());
      return;
    }
    publication.isRetired = true;
    this.#dropIdle(digest);
  }

  #publish(adapter: AdapterRef): Publication {
    const { digest } = adapter;
    const ready = this.#publishBehindRetirement(adapter);
    const publication: Publication = { ready, path: adapter.path, numUsers: 0, isRetired: false };
    this.#published.set(digest, publication);
    ready.catch(() => {
      if (this.#published.get(digest) === publication && publication.ready === ready) this.#published.delete(digest);
    });
    return publication;
  }

  /** Equal weights share a digest, and an older folder of theirs may be removed. */
  #move(publication: Publication, adapter: AdapterRef): void {
    const ready = publication.ready.catch(() => null).then(() => this.#publishBehindRetirement(adapter));
    publication.ready = ready;
    publication.path = adapter.path;
    ready.catch(() => {
      if (publication.ready === ready) publication.path = null;
    });
  }

  async #publishBehindRetirement({ digest, path }: AdapterRef): Promise<string | null> {
    await this.#retirements.get(digest);
    try {
      return await this.#backend.publish({ digest, directory: dirname(path) });
    } catch (cause) {
      if (cause instanceof EngineError) throw cause;
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new EngineError('engine.adapter_unreadable', `adapter ${digest} cannot be loaded: ${reason}`, { cause });
    }
  }

  #dropIdle(digest: string): void {
    const publication = this.#published.get(digest);
    if (publication === undefined || !publication.isRetired || publication.numUsers > 0) return;
    this.#published.delete(digest);
    this.#giveBack(digest, publication.ready);
  }

  #giveBack(digest: string, ready: Promise<unknown>): void {
    const retirement = ready
      .catch(() => undefined)
      .then(() => this.#backend.retire(digest))
      // A version that the back end cannot remove takes memory there but affects no request.
      .catch(() => undefined)
      .finally(() => this.#retirements.delete(digest));
    this.#retirements.set(digest, retirement);
  }
}

interface Publication {
  ready: Promise<string | null>;
  /** Last published file; null if its publication failed. */
  path: string | null;
  numUsers: number;
  isRetired: boolean;
}
