import type { AdapterFileName, AdapterObject, DeletedObject, ListPage } from '@trainyard/protocol';

import { type CallOptions, type Connection, type PageOptions, query } from './connection.ts';

type AdapterBytes = Uint8Array<ArrayBuffer> | Blob;

/** Adapters that were trained elsewhere. */
export class Adapters {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Imports an adapter of PEFT: sends its two files and has them checked.
   *
   * @returns the adapter; its `name` is what a new model can begin with
   * @throws {TrainyardApiError} `trainer.adapter_invalid` with what is wrong; the upload is removed then
   */
  async import(
    files: { config: AdapterBytes; weights: AdapterBytes; baseModel?: string },
    options: CallOptions = {},
  ): Promise<AdapterObject> {
    const { config, weights, baseModel } = files;
    const body = { base_model: baseModel ?? null };
    const { id } = await this.#connection.call<AdapterObject>('POST', '/preview/adapters', { ...options, body });
    try {
      await this.#put(id, 'adapter_config.json', config, options);
      await this.#put(id, 'adapter_model.safetensors', weights, options);
      return await this.#connection.call('POST', `${adapterPath(id)}/commit`, signalOf(options));
    } catch (error) {
      // The first error is the one to tell; an upload that stays is removed after a day.
      await this.delete(id).catch(() => undefined);
      throw error;
    }
  }

  async get(adapterId: string, options: CallOptions = {}): Promise<AdapterObject> {
    return await this.#connection.call('GET', adapterPath(adapterId), options);
  }

  async list(page: PageOptions = {}, options: CallOptions = {}): Promise<ListPage<AdapterObject>> {
    return await this.#connection.call('GET', `/preview/adapters${query(page)}`, options);
  }

  /** Models that began with it keep their weights. */
  async delete(adapterId: string, options: CallOptions = {}): Promise<DeletedObject> {
    return await this.#connection.call('DELETE', adapterPath(adapterId), options);
  }

  async #put(id: string, name: AdapterFileName, bytes: AdapterBytes, options: CallOptions): Promise<void> {
    await this.#connection.call('PUT', `${adapterPath(id)}/files/${name}`, {
      ...signalOf(options),
      upload: { content: bytes, mediaType: 'application/octet-stream' },
    });
  }
}

const adapterPath = (adapterId: string) => `/preview/adapters/${encodeURIComponent(adapterId)}`;

/** The idempotency key belongs to the request that begins the upload. */
const signalOf = ({ signal }: CallOptions): CallOptions => (signal === undefined ? {} : { signal });
