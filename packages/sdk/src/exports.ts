import type { DeletedObject, ExportDtype, ExportFormat, ExportObject, ListPage } from '@trainyard/protocol';

import { type CallOptions, type Connection, type PageOptions, query } from './connection.ts';
import { delay } from './delay.ts';
import { ExportFailedError } from './errors.ts';

/** How often a waiting client looks. */
const POLL_INTERVAL_MS = 500;

/** Checkpoints of models as files in public formats. */
export class Exports {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Queues an export and returns at once; see `wait`. */
  async create(
    modelId: string,
    body: { format: ExportFormat; step?: number | null; dtype?: ExportDtype | null },
    options: CallOptions = {},
  ): Promise<ExportObject> {
    return await this.#connection.call('POST', exportsPath(modelId), { ...options, body });
  }

  async get(modelId: string, exportId: string, options: CallOptions = {}): Promise<ExportObject> {
    return await this.#connection.call('GET', exportPath(modelId, exportId), options);
  }

  async list(modelId: string, page: PageOptions = {}, options: CallOptions = {}): Promise<ListPage<ExportObject>> {
    return await this.#connection.call('GET', `${exportsPath(modelId)}${query(page)}`, options);
  }

  /** Removes the export and its files; a running one is stopped. */
  async delete(modelId: string, exportId: string, options: CallOptions = {}): Promise<DeletedObject> {
    return await this.#connection.call('DELETE', exportPath(modelId, exportId), options);
  }

  /** Waits until the files can be read. @throws {ExportFailedError} */
  async wait(modelId: string, exportId: string, options: CallOptions = {}): Promise<ExportObject> {
    for (;;) {
      const current = await this.get(modelId, exportId, options);
      if (current.status === 'succeeded') return current;
      if (current.status === 'failed') throw new ExportFailedError(exportId, current.error_message ?? 'unknown error');
      await delay(POLL_INTERVAL_MS, options.signal);
    }
  }

  /** A file as it comes: `body` is a stream, `headers` have length and ETag (the sha256 in quotes). */
  async download(modelId: string, exportId: string, name: string, options: CallOptions = {}): Promise<Response> {
    const path = `${exportPath(modelId, exportId)}/files/${encodeURIComponent(name)}`;
    return await this.#connection.request('GET', path, options);
  }
}

const exportsPath = (modelId: string) => `/preview/models/${encodeURIComponent(modelId)}/exports`;

const exportPath = (modelId: string, exportId: string) => `${exportsPath(modelId)}/${encodeURIComponent(exportId)}`;
