import { dirname } from 'node:path';

import type { Blobs } from '@trainyard/store';
import { DamagedFileError } from '@trainyard/trainer';

import { adapterIdentity } from '../../seams/contract/adapter-identity.ts';
import {
  type AdapterFormat,
  adapterPath,
  type InferenceRequest,
  type ServedAdapter,
} from '../../seams/contract/backends.ts';
import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import { checkFolder } from '../../seams/integrity/check-folder.ts';

/** Maximum number of adapters that others are informed of. */
const MAX_TOLD = 64;

interface AdapterFilesParts {
  readonly blobs: Blobs;
  /** See {@link InferenceBackend.adapterFormat}. */
  readonly format?: AdapterFormat | undefined;
  readonly log: (line: string) => void;
}

/**
 * Files of adapters, by their keys in requests: fetched by this machine's own blobs, and compared with their
 * digests.
 */
export class AdapterFiles {
  readonly #blobs: Blobs;
  readonly #format: AdapterFormat;
  readonly #log: (line: string) => void;
  /** In order of last use. */
  readonly #used = new Set<string>();

  constructor({ blobs, format = 'peft', log }: AdapterFilesParts) {
    this.#blobs = blobs;
    this.#format = format;
    this.#log = log;
  }

  /** Digests of the most recently used adapters, the newest last. */
  get digests(): readonly string[] {
    return [...this.#used];
  }

  /** Forgets an adapter that is not needed any more. */
  retire(digest: string): void {
    this.#used.delete(digest);
  }

  /** Adds the local file to a request. @throws {BackendFailure} `engine.adapter_unreadable`; {StoreError} */
  async find(request: InferenceRequest): Promise<InferenceRequest> {
    const { adapter } = request;
    return adapter === null ? request : { ...request, adapter: await this.locate(adapter) };
  }

  /**
   * Adds the local file to an adapter.
   * @throws {BackendFailure} `engine.adapter_unreadable`, `engine.adapter_damaged`; {StoreError}
   */
  async locate({ digest, directoryKey }: Omit<ServedAdapter, 'path'>): Promise<ServedAdapter> {
    const path = await adapterPath(this.#blobs, directoryKey, this.#format);
    if (path === null) throw unreadable(`the files of the adapter ${digest} are gone`);
    await this.#check(dirname(path), digest);
    this.#use(digest);
    const identity = await adapterIdentity(dirname(path), digest);
    return { digest: identity, directoryKey, path };
  }

  #use(digest: string): void {
    this.#used.delete(digest);
    this.#used.add(digest);
    const [oldest] = this.#used;
    if (this.#used.size > MAX_TOLD && oldest !== undefined) this.#used.delete(oldest);
  }

  /** @throws {BackendFailure} `engine.adapter_damaged`, `engine.adapter_unreadable` */
  async #check(directory: string, digest: string): Promise<void> {
    try {
      await checkFolder(directory, { digest, use: this.#format, log: this.#log });
    } catch (error) {
      if (error instanceof DamagedFileError) throw new BackendFailure('engine.adapter_damaged', error.message, null);
      // Clients read this message, which must not contain local paths.
      const { code = 'unknown' } = error as NodeJS.ErrnoException;
      throw unreadable(`the weights of an adapter cannot be read (${code})`);
    }
  }
}

function unreadable(message: string): BackendFailure {
  return new BackendFailure('engine.adapter_unreadable', message, null);
}
