import type {
  AdapterFileName,
  AdapterFileObject,
  AdapterObject,
  CreateAdapterRequest,
  DeletedObject,
  PageQuery,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

type AdapterBytes = Uint8Array<ArrayBuffer> | Blob;

/** Imported adapters. */
export class Adapters {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Imports a PEFT adapter: uploads its two files and has them checked.
   *
   * @returns the adapter; a new model can start from its `name`
   * @throws {TrainyardApiError} `trainer.adapter_invalid` with the fault; the upload is then removed
   */
  async import(
    files: { config: AdapterBytes; weights: AdapterBytes; baseModel?: string },
    options: Omit<CallOptions, 'idempotencyKey'> = {},
  ): Promise<AdapterObject> {
    const { config, weights, baseModel } = files;
    const { id } = await this.create({ base_model: baseModel ?? null }, options);
    try {
      await this.uploadFile(id, 'adapter_config.json', config, options);
      await this.uploadFile(id, 'adapter_model.safetensors', weights, options);
      return await this.commit(id, options);
    } catch (error) {
      // The first error is reported; an upload that stays is removed after a day.
      await this.delete(id).catch(() => undefined);
      throw error;
    }
  }

  /** Starts an import; call `uploadFile` twice and `commit` next. */
  async create(body: CreateAdapterRequest = {}, options: CallOptions = {}): Promise<AdapterObject> {
    return await this.#connection.json('POST', '/v1/preview/adapters', { ...options, body });
  }

  async uploadFile(
    adapterId: string,
    name: AdapterFileName,
    bytes: AdapterBytes,
    options: CallOptions = {},
  ): Promise<AdapterFileObject> {
    const upload = { content: bytes, mediaType: 'application/octet-stream' };
    const file = adapterPath(adapterId) + path`/files/${name}`;
    return await this.#connection.json('PUT', file, { ...options, upload });
  }

  /** Checks the files and makes the adapter usable. */
  async commit(adapterId: string, options: CallOptions = {}): Promise<AdapterObject> {
    return await this.#connection.json('POST', `${adapterPath(adapterId)}/commit`, options);
  }

  async retrieve(adapterId: string, options: CallOptions = {}): Promise<AdapterObject> {
    return await this.#connection.json('GET', adapterPath(adapterId), options);
  }

  /** Adapters in order of creation, including unfinished uploads. */
  list(query: PageQuery = {}, options: CallOptions = {}): PagePromise<AdapterObject> {
    return listPages(this.#connection, '/v1/preview/adapters', query, options);
  }

  /** Deletes an adapter; models that started from it keep their weights. */
  async delete(adapterId: string, options: CallOptions = {}): Promise<DeletedObject> {
    return await this.#connection.json('DELETE', adapterPath(adapterId), options);
  }
}

const adapterPath = (adapterId: string) => path`/v1/preview/adapters/${adapterId}`;
