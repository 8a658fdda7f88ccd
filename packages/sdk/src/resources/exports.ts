import type { CreateExportRequest, DeletedObject, ExportObject, PageQuery } from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { delay } from '../http/delay.ts';
import { ExportFailedError } from '../http/errors.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

const POLL_INTERVAL_MS = 500;

/** Checkpoints of models as files in public formats. */
export class Exports {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Queues an export and returns at once; see `wait`. */
  async create(modelId: string, body: CreateExportRequest, options: CallOptions = {}): Promise<ExportObject> {
    return await this.#connection.json('POST', exportsPath(modelId), { ...options, body });
  }

  async retrieve(modelId: string, exportId: string, options: CallOptions = {}): Promise<ExportObject> {
    return await this.#connection.json('GET', exportPath(modelId, exportId), options);
  }

  /** Exports in order of creation. */
  list(modelId: string, query: PageQuery = {}, options: CallOptions = {}): PagePromise<ExportObject> {
    return listPages(this.#connection, exportsPath(modelId), query, options);
  }

  /** Deletes the export and its files; stops a running one. */
  async delete(modelId: string, exportId: string, options: CallOptions = {}): Promise<DeletedObject> {
    return await this.#connection.json('DELETE', exportPath(modelId, exportId), options);
  }

  /** Waits until the files are readable. @throws {ExportFailedError} */
  async wait(modelId: string, exportId: string, options: CallOptions = {}): Promise<ExportObject> {
    for (;;) {
      const current = await this.retrieve(modelId, exportId, options);
      if (current.status === 'succeeded') return current;
      if (current.status === 'failed') throw new ExportFailedError(exportId, current.error_message ?? 'unknown error');
      await delay(POLL_INTERVAL_MS, options.signal);
    }
  }

  /**
   * Downloads a file: `body` is a stream, `headers` have length and ETag (the sha256 in quotes). Reading
   * throws {TrainyardConnectionError} if it breaks, and the reason of an aborted `signal`.
   */
  async download(modelId: string, exportId: string, name: string, options: CallOptions = {}): Promise<Response> {
    return await this.#connection.file(exportPath(modelId, exportId) + path`/files/${name}`, options);
  }
}

const exportsPath = (modelId: string) => path`/v1/preview/models/${modelId}/exports`;

const exportPath = (modelId: string, exportId: string) => exportsPath(modelId) + path`/${exportId}`;
