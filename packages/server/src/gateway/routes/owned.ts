import type { FastifyRequest } from 'fastify';
import { type Adapter, isTrainingJob, type Model, type ModelExport, type TrainingJob } from '@trainyard/store';

import { callerOf } from '../edge/auth.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { RouteParts } from '../parts/server-parts.ts';

/**
 * Model of the caller.
 * @throws {RequestError} the same `request.not_found` for an unknown id and for another tenant's
 */
export async function ownedModel(request: FastifyRequest, parts: RouteParts, modelId: string): Promise<Model> {
  const model = await parts.store.models.get(modelId);
  if (model === null || model.entityId !== callerOf(request).entityId) throw notFound('model', modelId, 'model_id');
  return model;
}

/** Training job of the caller. @throws {RequestError} as for models */
export async function ownedJob(request: FastifyRequest, parts: RouteParts, jobId: string): Promise<TrainingJob> {
  const job = await parts.store.jobs.get(jobId);
  const isOwn = job !== null && isTrainingJob(job) && job.entityId === callerOf(request).entityId;
  if (!isOwn) throw notFound('training job', jobId, 'job_id');
  return job;
}

/** Export of the caller's model. @throws {RequestError} as for models */
export async function ownedExport(
  request: FastifyRequest,
  parts: RouteParts,
  ids: { model_id: string; export_id: string },
): Promise<ModelExport> {
  const model = await ownedModel(request, parts, ids.model_id);
  const found = await parts.store.exports.get(ids.export_id);
  if (found === null || found.modelId !== model.id) throw notFound('export', ids.export_id, 'export_id');
  return found;
}

/** Adapter of the caller. @throws {RequestError} as for models */
export async function ownedAdapter(request: FastifyRequest, parts: RouteParts, adapterId: string): Promise<Adapter> {
  const adapter = await parts.store.adapters.get(adapterId);
  if (adapter === null || adapter.entityId !== callerOf(request).entityId) {
    throw notFound('adapter', adapterId, 'adapter_id');
  }
  return adapter;
}

export function notFound(what: string, id: string, param: string): RequestError {
  return new RequestError('request.not_found', `The ${what} ${JSON.stringify(id.slice(0, 100))} does not exist`, {
    param,
  });
}
