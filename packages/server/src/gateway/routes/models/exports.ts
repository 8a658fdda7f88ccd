import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

import { randomUUID } from 'node:crypto';

import type { FastifyInstance, FastifyReply } from 'fastify';
import {
  type CreateExportRequest,
  CreateExportRequestSchema,
  type DeletedObject,
  type ExportDtype,
  type ExportFormat,
  type ExportObject,
  type ListPage,
  type PageQuery,
  PageQuerySchema,
  type ParityReportObject,
} from '@trainyard/protocol';
import { type Checkpoint, type Model, type ModelExport, StoreError } from '@trainyard/store';
import type { ParityReport } from '@trainyard/trainer';

import { answerOnce } from '../../answers/idempotency.ts';
import { toListPage } from '../../answers/paging.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { removeFiles } from '../files.ts';
import { refusedWhenFull } from '../full-queue.ts';
import { originOf } from '../job-origin.ts';
import { notFound, ownedExport, ownedModel } from '../owned.ts';

/** Maximum queued and running exports of one model: each needs a copy of the model on disk while it runs. */
const MAX_LIVE_EXPORTS = 8;

interface ExportIds {
  model_id: string;
  export_id: string;
}

/** POST and GET /v1/preview/models/{model_id}/exports, GET and DELETE …/{export_id}, GET …/{export_id}/files/{name}. */
export function exportRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, blobs, exports, clock } = parts;
  const path = '/v1/preview/models/:model_id/exports';

  app.post<{ Params: { model_id: string }; Body: CreateExportRequest }>(
    path,
    { config: { scope: 'training', submits: true }, schema: { body: CreateExportRequestSchema } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes): Promise<ExportObject> => {
        const model = await ownedModel(request, parts, request.params.model_id);
        const { format, step } = request.body;
        refuseOtherBase(model, parts);
        const dtype = dtypeOf(request.body);
        const checkpoint = await checkpointOf(model, step ?? null);
        const queued: ExportObject = {
          id: randomUUID(),
          model_id: model.id,
          step: checkpoint.step,
          format,
          dtype,
          status: 'queued',
          created_at: Math.floor(clock() / 1000),
          finished_at: null,
          source_digest: checkpoint.digest,
          files: [],
          parity: null,
          error_message: null,
        };
        const answer = completes(queued);
        const created = await refusedWhenFull(
          store.exports.create({
            id: queued.id,
            modelId: model.id,
            step: checkpoint.step,
            format,
            dtype,
            maxLive: MAX_LIVE_EXPORTS,
            origin: originOf(request),
            ...(answer ? { completes: answer } : {}),
          }),
          `${MAX_LIVE_EXPORTS} exports of this model are queued or running, which is the limit; wait for one to end`,
        );
        if (created === null) throw stepNotFound(checkpoint.step);
        exports.notify();
        return queued;
      }),
  );

  app.get<{ Params: { model_id: string }; Querystring: PageQuery }>(
    path,
    { config: { scope: 'training' }, schema: { querystring: PageQuerySchema } },
    async (request): Promise<ListPage<ExportObject>> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      return toListPage(await store.exports.list({ ...request.query, modelId: model.id }), toExportObject);
    },
  );

  app.get<{ Params: ExportIds }>(
    `${path}/:export_id`,
    { config: { scope: 'training' } },
    async (request): Promise<ExportObject> => toExportObject(await ownedExport(request, parts, request.params)),
  );

  app.delete<{ Params: ExportIds }>(`${path}/:export_id`, { config: { scope: 'training' } }, (request, reply) =>
    answerOnce(store, request, reply, async (completes): Promise<DeletedObject> => {
      const { id } = await ownedExport(request, parts, request.params);
      const answer: DeletedObject = { id, deleted: true };
      const deleted = await store.exports.delete(id, completes(answer));
      if (deleted === null) throw notFound('export', id, 'export_id');
      await exports.cancelExport(id);
      await removeFiles(parts, deleted);
      return answer;
    }),
  );

  app.get<{ Params: ExportIds & { name: string } }>(
    `${path}/:export_id/files/:name`,
    { config: { scope: 'training' } },
    async (request, reply): Promise<FastifyReply> => {
      const { files, directoryKey } = await ownedExport(request, parts, request.params);
      const { name } = request.params;
      // Only files that the export lists: a name is never a path.
      const file = files.find((candidate) => candidate.name === name);
      if (file === undefined || directoryKey === null) throw notFound('file', name, 'name');
      const directory = await blobs.localDirectory(directoryKey);
      const filePath = directory === null ? null : join(directory, file.name);
      if (filePath === null || (await stat(filePath)).size !== file.sizeBytes) {
        throw new StoreError(
          'store.blob_missing',
          `the files ${directoryKey} of an export are missing or were changed`,
        );
      }
      return reply
        .type('application/octet-stream')
        .header('content-length', file.sizeBytes)
        .header('etag', `"${file.sha256}"`)
        .header('content-disposition', `attachment; filename="${file.name}"`)
        .send(createReadStream(filePath));
    },
  );

  async function checkpointOf(model: Model, step: number | null): Promise<Checkpoint> {
    const checkpoint =
      step === null ? await store.checkpoints.latest(model.id) : await store.checkpoints.get(model.id, step);
    if (checkpoint === null) throw stepNotFound(step ?? 'latest');
    return checkpoint;
  }
}

function refuseOtherBase(model: Model, { baseModels }: RouteParts): void {
  baseModels.under(model, { field: 'model_id' });
}

/** Adapters are stored in float32 and exported unchanged. */
function dtypeOf({ format, dtype }: CreateExportRequest): ExportDtype {
  if (format === 'merged-gguf' || format === 'merged-safetensors') return dtype ?? 'f16';
  if (dtype == null || dtype === 'f32') return 'f32';
  throw new RequestError(
    'request.conflict',
    `The format \`${format}\` is always f32; \`dtype\` ${dtype} applies only to merged formats`,
    {
      param: 'dtype',
    },
  );
}

function stepNotFound(step: number | 'latest'): RequestError {
  return new RequestError('request.not_found', `The model has no checkpoint of step ${step}`, { param: 'step' });
}

function toExportObject(record: ModelExport): ExportObject {
  return {
    id: record.id,
    model_id: record.modelId,
    step: record.step,
    format: record.format as ExportFormat,
    dtype: record.dtype as ExportDtype,
    status: record.status,
    created_at: Math.floor(record.createdAt / 1000),
    finished_at: record.finishedAt === null ? null : Math.floor(record.finishedAt / 1000),
    source_digest: record.sourceDigest,
    files: record.files.map(({ name, sizeBytes, sha256 }) => ({ name, size_bytes: sizeBytes, sha256 })),
    parity: record.parity === null ? null : toParityObject(record.parity as unknown as ParityReport),
    error_message: record.errorMessage,
  };
}

function toParityObject(report: ParityReport): ParityReportObject {
  return {
    num_tokens: report.numTokens,
    mean_abs_difference: report.meanDifference,
    max_abs_difference: report.maxDifference,
    computed_by: report.computedBy,
    adapter_effect: report.adapterEffect,
  };
}
