import { dirname, join } from 'node:path';

import { type Blobs, hashOf } from '@trainyard/store';

import { adapterIdentity } from '../../contract/adapter-identity.ts';
import { adapterPath, type InferenceRequest } from '../../contract/backends.ts';
import { BackendFailure } from '../../faults/backend-failure.ts';

/** A digest is that of this file of a checkpoint's folder. */
const WEIGHTS_FILE = 'adapter_model.safetensors';
/** Adapters of which it is remembered that their files are theirs. */
const MAX_CHECKED = 10_000;
/** Adapters that others are told of. */
const MAX_TOLD = 64;

/**
 * The files of adapters, by the keys that requests name: fetched by this machine's own blobs, and compared with their digest when they are used for the
 * first time.
 */
export class AdapterFiles {
  readonly #blobs: Blobs;
  /** By key, the digest that its files have, or the look at them that goes on. */
  readonly #digests = new Map<string, Promise<string>>();
  /** The one that was used last is the last. */
  readonly #used = new Set<string>();

  constructor(blobs: Blobs) {
    this.#blobs = blobs;
  }

  /** Digests of the adapters that were used last, the newest at the end. */
  get digests(): readonly string[] {
    return [...this.#used];
  }

  /** Nobody needs it any more. */
  retire(digest: string): void {
    this.#used.delete(digest);
  }

  /** The request, with the file on this machine. @throws {BackendFailure} `engine.adapter_unreadable`; {StoreError} */
  async find(request: InferenceRequest): Promise<InferenceRequest> {
    const { adapter } = request;
    if (adapter === null) return request;
    const { digest, directoryKey } = adapter;
    const path = await adapterPath(this.#blobs, directoryKey);
    if (path === null) throw unreadable(`the files of the adapter ${digest} are gone`);
    const found = await this.#digestOf(directoryKey, path);
    if (found !== digest) throw unreadable(`the files of the adapter ${digest} have the digest ${found}`);
    this.#use(digest);
    const identity = await adapterIdentity(dirname(path), digest);
    return { ...request, adapter: { digest: identity, directoryKey, path } };
  }

  #use(digest: string): void {
    this.#used.delete(digest);
    this.#used.add(digest);
    const [oldest] = this.#used;
    if (this.#used.size > MAX_TOLD && oldest !== undefined) this.#used.delete(oldest);
  }

  #digestOf(directoryKey: string, path: string): Promise<string> {
    const known = this.#digests.get(directoryKey);
    if (known !== undefined) return known;
    const digest = digestOfFile(join(dirname(path), WEIGHTS_FILE));
    this.#digests.set(directoryKey, digest);
    digest.catch(() => this.#digests.delete(directoryKey));
    const [oldest] = this.#digests.keys();
    if (this.#digests.size > MAX_CHECKED && oldest !== undefined) this.#digests.delete(oldest);
    return digest;
  }
}

async function digestOfFile(path: string): Promise<string> {
  try {
    return (await hashOf(path)).sha256;
  } catch (error) {
    // A client reads it: paths of this machine are none of its business.
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw unreadable(`the weights of an adapter cannot be read (${code})`);
  }
}

function unreadable(message: string): BackendFailure {
  return new BackendFailure('engine.adapter_unreadable', message, null);
}
