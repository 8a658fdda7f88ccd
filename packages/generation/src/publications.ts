import { type AdapterRef, EngineError, type TokenBackend } from '@trainyard/backend';
import { dirname } from 'node:path';

/** One request's hold on an adapter version. */
export interface HeldAdapter {
  /** Resolves when the back end has it, as {@link TokenBackend.publish} does. @throws {EngineError} engine.adapter_unreadable, and what else the back end says */
  readonly ready: Promise<string | null>;
  /** Once: the request has ended. */
  release(): void;
}

/**
 * The adapter versions that a back end was given. Each is published before the first request that names it, once however many wait for it; one whose publishing
 * failed is published anew for the next request. A retired one goes when no request in flight uses it; named again, it stays, or is published again behind that.
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
    publication.numUsers++;
    publication.isRetired = false;
    const release = (): void => {
      publication.numUsers--;
      this.#dropIdle(digest);
    };
    return { ready: publication.ready, release };
  }

  /** One that is not published here may have been by an earlier life of this process, and still be with the back end. */
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
    const publication = { ready, numUsers: 0, isRetired: false };
    this.#published.set(digest, publication);
    ready.catch(() => {
      if (this.#published.get(digest) === publication) this.#published.delete(digest);
    });
    return publication;
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
      .then(() => this.#backend.retire(digest))
      // What the back end cannot give back now takes memory there, and harms no request.
      .catch(() => undefined)
      .finally(() => this.#retirements.delete(digest));
    this.#retirements.set(digest, retirement);
  }
}

interface Publication {
  readonly ready: Promise<string | null>;
  numUsers: number;
  isRetired: boolean;
}
