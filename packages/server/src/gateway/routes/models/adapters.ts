import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  ADAPTER_FILES,
  type AdapterFileName,
  type AdapterFileObject,
  type AdapterObject,
  type CreateAdapterRequest,
  CreateAdapterRequestSchema,
  type DeletedObject,
  type ListPage,
  type PageQuery,
  PageQuerySchema,
} from '@trainyard/protocol';
import type { Adapter } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { adapterName } from '../../../seams/contract/resolve-imported-adapter.ts';
import { answerOnce, answerUploadOnce } from '../../answers/idempotency.ts';
import { toListPage } from '../../answers/paging.ts';
import { putUpload } from '../../../seams/integrity/upload-digest.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { toLoraShapeObject } from '../../../training-data/wire/lora.ts';
import { removeFiles } from '../files.ts';
import { retireAdapters } from './retire-adapters.ts';
import { originOf } from '../job-origin.ts';
import { refusedWhenFull } from '../full-queue.ts';
import { notFound, ownedAdapter } from '../owned.ts';

/** Maximum uncommitted uploads of an entity: each may be half a gigabyte. */
const MAX_OPEN_UPLOADS = 8;
/** Uncommitted uploads are removed for new ones after a day. */
const UPLOAD_LIFETIME_MS = 24 * 3600 * 1000;

/** POST and GET /v1/preview/adapters, GET and DELETE …/{adapter_id}, PUT …/{adapter_id}/files/{name}, POST …/{adapter_id}/commit. */
export function adapterRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, baseModels, imports, clock } = parts;
  const path = '/v1/preview/adapters';

  app.post<{ Body: CreateAdapterRequest }>(
    path,
    { config: { scope: 'training' }, schema: { body: CreateAdapterRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<AdapterObject> => {
        const { id: baseModel } = baseModels.named(request.body.base_model ?? baseModels.default.id);
        const { entityId } = callerOf(request);
        await removeFiles(
          parts,
          await store.adapters.expireUploads(
            entityId,
            Math.min(clock(), store.clock.removalTime()) - UPLOAD_LIFETIME_MS,
          ),
        );
        const id = randomUUID();
        const begun: AdapterObject = {
          id,
          name: adapterName(id),
          base_model: baseModel,
          status: 'uploading',
          created_at: Math.floor(clock() / 1000),
          lora: null,
          digest: null,
        };
        const answer = completes(begun);
        const keys = { configKey: `uploads/${id}/config`, weightsKey: `uploads/${id}/weights` };
        const upload = { id, entityId, baseModel, ...keys, maxOpen: MAX_OPEN_UPLOADS };
        await refusedWhenFull(
          store.adapters.create({ ...upload, ...(answer ? { completes: answer } : {}) }),
          `${MAX_OPEN_UPLOADS} adapter uploads are open, which is the limit; commit or delete one`,
        );
        return begun;
      }),
  );

  app.get<{ Querystring: PageQuery }>(
    path,
    { config: { scope: 'training' }, schema: { querystring: PageQuerySchema } },
    async (request): Promise<ListPage<AdapterObject>> => {
      const { entityId } = callerOf(request);
      return toListPage(await store.adapters.list({ ...request.query, entityId }), toAdapterObject);
    },
  );

  app.get<{ Params: { adapter_id: string } }>(
    `${path}/:adapter_id`,
    { config: { scope: 'training' } },
    async (request): Promise<AdapterObject> =>
      toAdapterObject(await ownedAdapter(request, parts, request.params.adapter_id)),
  );

  app.delete<{ Params: { adapter_id: string } }>(
    `${path}/:adapter_id`,
    { config: { scope: 'training' } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<DeletedObject> => {
        const { id } = await ownedAdapter(request, parts, request.params.adapter_id);
        const answer: DeletedObject = { id, deleted: true };
        const deleted = await store.adapters.delete(id, completes(answer));
        if (deleted === null) throw notFound('adapter', id, 'adapter_id');
        parts.resolvedModels.clear();
        await imports.cancelAdapter(id);
        retireAdapters(parts, deleted);
        await removeFiles(parts, deleted);
        return answer;
      }),
  );

  app.post<{ Params: { adapter_id: string } }>(
    `${path}/:adapter_id/commit`,
    { config: { scope: 'training' } },
    (request, reply) =>
      // A crash after the effect is harmless: a repeated commit returns the same.
      answerOnce(store, request, reply, async (): Promise<AdapterObject> => {
        const adapter = await ownedAdapter(request, parts, request.params.adapter_id);
        return toAdapterObject(adapter.upload === null ? adapter : await imports.commit(adapter, originOf(request)));
      }),
  );

  uploadRoute(app, parts, path);
}

/** Streams the body to disk, for any media type: `curl -T` sends none. */
function uploadRoute(app: FastifyInstance, parts: RouteParts, path: string): void {
  const { store, blobs } = parts;
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload: Readable, done) => done(null, payload));
    scope.put<{ Params: { adapter_id: string; name: string }; Body: Readable | undefined }>(
      `${path}/:adapter_id/files/:name`,
      { config: { scope: 'training' }, bodyLimit: Math.max(...Object.values(ADAPTER_FILES)) },
      (request, reply) => {
        const name = fileName(request.params.name);
        const limit = ADAPTER_FILES[name];
        const options = { limit, budget: null, tooLarge: () => tooLarge(name, limit) };
        const body = parts.intake.open(request, request.body ?? Readable.from([]), options);
        return answerUploadOnce(store, reply, body, (content) => receive(request, name, content));
      },
    );
  });

  async function receive(
    request: FastifyRequest<{ Params: { adapter_id: string } }>,
    name: AdapterFileName,
    content: AsyncIterable<Buffer>,
  ): Promise<AdapterFileObject> {
    const { id, upload } = await ownedAdapter(request, parts, request.params.adapter_id);
    if (upload === null) {
      throw new RequestError('request.conflict', 'The adapter is already committed; start another upload', {
        param: 'adapter_id',
      });
    }
    const key = name === 'adapter_config.json' ? upload.configKey : upload.weightsKey;
    const { sizeBytes } = await putUpload(blobs, key, content);
    // Deleted or committed during the upload: nothing names the blob any more.
    const current = await store.adapters.get(id);
    if (current?.upload == null) {
      await removeFiles(parts, { blobKeys: [key] });
      throw notFound('upload', id, 'adapter_id');
    }
    return { adapter_id: id, name, size_bytes: sizeBytes };
  }
}

function fileName(name: string): AdapterFileName {
  if (Object.hasOwn(ADAPTER_FILES, name)) return name as AdapterFileName;
  throw new RequestError(
    'request.not_found',
    `An adapter has the files ${Object.keys(ADAPTER_FILES).join(' and ')}, not ${JSON.stringify(name.slice(0, 100))}`,
    { param: 'name' },
  );
}

function tooLarge(name: string, limit: number): RequestError {
  return new RequestError('request.body_too_large', `${name} may have at most ${limit} bytes`);
}

function toAdapterObject(adapter: Adapter): AdapterObject {
  const { content } = adapter;
  return {
    id: adapter.id,
    name: adapterName(adapter.id),
    base_model: adapter.baseModel,
    status: content === null ? 'uploading' : 'ready',
    created_at: Math.floor(adapter.createdAt / 1000),
    lora: content === null ? null : toLoraShapeObject(content.lora),
    digest: content?.digest ?? null,
  };
}
