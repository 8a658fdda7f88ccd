import { randomUUID } from 'node:crypto';

import type { Adapter, Blobs, Store } from '@trainyard/store';

import type { AdapterImporter } from '../contract/backends.ts';
import type { ExchangeBackend } from '../hosts/embedded-exchange.ts';
import { nameFile } from '../data/remove-unless-named.ts';
import { RequestError } from '../faults/request-error.ts';

/** Imports that run or wait; each takes seconds, and holds its request open. */
const MAX_IMPORTS = 16;

/** Turns uploads into adapters, one at a time: each may take the memory of its file twice. */
export class AdapterImports implements AdapterImporter {
  readonly #options: {
    readonly store: Store;
    readonly blobs: Blobs;
    readonly backend: ExchangeBackend;
    readonly modelPath: () => string;
    readonly log: (line: string) => void;
  };
  readonly #controller = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #numImports = 0;

  constructor(options: {
    store: Store;
    blobs: Blobs;
    backend: ExchangeBackend;
    modelPath: () => string;
    log: (line: string) => void;
  }) {
    this.#options = options;
  }

  /** Ends the import that runs, and those that wait. */
  async stop(): Promise<void> {
    this.#controller.abort(
      new RequestError('server.unavailable', 'The service is shutting down; commit the upload again'),
    );
    await this.#last;
  }

  /** @throws {RequestError} `request.too_many` when too many wait already */
  async commit(adapter: Adapter): Promise<Adapter> {
    if (this.#numImports >= MAX_IMPORTS) {
      throw new RequestError(
        'request.too_many',
        `${MAX_IMPORTS} imports of adapters run or wait already, which is the limit; commit the upload again in a while`,
        { headers: { 'retry-after': '5' } },
      );
    }
    this.#numImports += 1;
    const result = this.#last.then(() => this.#commit(adapter));
    this.#last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      this.#numImports -= 1;
    }
  }

  async #commit(adapter: Adapter): Promise<Adapter> {
    const { store } = this.#options;
    this.#controller.signal.throwIfAborted();
    // Another commit may have been first.
    const current = await store.getAdapter(adapter.id);
    if (current?.upload == null) return current ?? gone(adapter);
    try {
      return await this.#import(current, current.upload);
    } catch (error) {
      // Deleted while its files were read, whatever that looked like.
      if ((await store.getAdapter(adapter.id)) === null) return gone(adapter);
      throw error;
    }
  }

  async #import(adapter: Adapter, { configKey, weightsKey }: NonNullable<Adapter['upload']>): Promise<Adapter> {
    const { store, blobs, backend, modelPath, log } = this.#options;
    const { signal } = this.#controller;
    const [configPath, weightsPath] = [await blobs.localFile(configKey), await blobs.localFile(weightsKey)];
    if (configPath === null) throw missing('adapter_config.json', adapter.id);
    if (weightsPath === null) throw missing('adapter_model.safetensors', adapter.id);
    const config = Buffer.from(await blobs.get(configKey)).toString('utf8');
    const staged = await blobs.stageDirectory();
    try {
      const request = { modelPath: modelPath(), config, weightsPath, outputDirectory: staged };
      const { lora, digest } = await backend.importAdapter(request, { signal });
      const artifactKey = `adapters/${randomUUID()}`;
      await store.announceKey(artifactKey);
      await blobs.commitDirectory(staged, artifactKey);
      const named = await nameFile({ store, blobs, log }, { key: artifactKey, kind: 'directory' }, async () => ({
        committed: await store.commitAdapter(adapter.id, { lora, artifactKey, digest }),
      }));
      // Null: it is committed, though the store said otherwise.
      if (named === null) return (await store.getAdapter(adapter.id)) ?? gone(adapter);
      const { committed } = named;
      for (const key of committed?.blobKeys ?? []) await blobs.remove(key);
      if (committed !== null) return committed.adapter;
      await blobs.removeDirectory(artifactKey);
      return gone(adapter);
    } finally {
      await blobs.discardDirectory(staged);
    }
  }
}

function missing(name: string, adapterId: string): RequestError {
  return new RequestError(
    'request.conflict',
    `The upload has no ${name} yet; send it with PUT /v1/preview/adapters/${adapterId}/files/${name}`,
    { param: name },
  );
}

function gone(adapter: Adapter): never {
  throw new RequestError('request.not_found', `The adapter "${adapter.id}" was deleted`, { param: 'adapter_id' });
}
