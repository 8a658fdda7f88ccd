import { randomUUID } from 'node:crypto';

import type { FastifyRequest } from 'fastify';
import type { TrainingJobObject } from '@trainyard/protocol';
import type { JobKind, Model } from '@trainyard/store';

import { callerOf } from '../auth.ts';
import type { Completes } from '../idempotency.ts';
import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { notFound, ownedModel } from './owned.ts';

/** The caller's model, if it can be trained here. @throws {RequestError} `request.not_found`, `request.conflict` */
export async function trainableModel(request: FastifyRequest, parts: RouteParts, modelId: string): Promise<Model> {
  const model = await ownedModel(request, parts, modelId);
  const { id: servedId } = parts.inference.baseModel;
  if (model.baseModel === servedId) return model;
  throw new RequestError(
    'request.conflict',
    `The model is based on \`${model.baseModel}\`, which is not served here; served: ${servedId}`,
    { param: 'model_id' },
  );
}

export interface Submission {
  readonly model: Model;
  readonly kind: JobKind;
  /** Prefix of the blob that will hold the job's data. */
  readonly dataPrefix: 'groups' | 'sft';
  /** Writes the job's data to the blob. @returns the settings that the row keeps */
  readonly store: (dataKey: string) => Promise<{ readonly ignoredKeys: string[] }>;
}

/**
 * Stores a job's data, queues the job and tells the worker. When anything fails there is neither job nor data.
 *
 * @param completes makes the answer part of the transaction
 */
export async function submitJob(
  request: FastifyRequest,
  parts: RouteParts,
  { model, kind, dataPrefix, store }: Submission,
  completes: Completes,
): Promise<TrainingJobObject> {
  const id = randomUUID();
  const groupsKey = `${dataPrefix}/${id}`;
  try {
    const config = await store(groupsKey);
    const job: TrainingJobObject = {
      id,
      model_id: model.id,
      status: 'queued',
      created_at: Math.floor(parts.clock() / 1000),
      ignored_config_keys: config.ignoredKeys,
    };
    const stored = completes(job);
    const enqueued = await parts.store.enqueueJob({
      id,
      modelId: model.id,
      kind,
      config,
      groupsKey,
      keyId: callerOf(request).keyId,
      ...(stored ? { completes: stored } : {}),
    });
    if (enqueued === null) throw notFound('model', model.id, 'model_id');
    parts.training.notify();
    return job;
  } catch (error) {
    await parts.blobs.remove(groupsKey);
    throw error;
  }
}
