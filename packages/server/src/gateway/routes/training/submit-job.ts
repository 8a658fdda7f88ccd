import { randomUUID } from 'node:crypto';

import type { FastifyRequest } from 'fastify';
import type { TrainingJobObject } from '@trainyard/protocol';
import {
  type GroupContents,
  type GroupRewards,
  type Model,
  refuseArchived,
  type TrainerLimits,
  type TrainingJob,
  type TrainingJobConfig,
} from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import type { Completes } from '../../answers/idempotency.ts';
import { removeUnlessNamed } from '../../../seams/data/remove-unless-named.ts';
import type { BaseModel } from '../../../seams/contract/base-models.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { refuseUntrainable, trainedBaseModels } from '../../../seams/contract/trained-base-models.ts';
import { refuseShape, trainerLimits } from './trainer-limits.ts';
import { waitingFor } from './waiting-for.ts';
import { toJobObject } from '../../../training-data/wire/training-job.ts';
import { refusedWhenFull } from '../full-queue.ts';
import { notFound, ownedModel } from '../owned.ts';
import { originOf } from '../job-origin.ts';
import { warmStartIsGone } from './warm-start.ts';

/** Maximum queued and running jobs of one model: each keeps its data until it ends. */
export const MAX_LIVE_JOBS = 1000;

export const QUEUE_IS_FULL = `${MAX_LIVE_JOBS} jobs of this model are queued or running, which is the limit; wait for one to end, or cancel some`;

/**
 * The caller's model and the limits of its trainer, if it can be trained here.
 * @throws {RequestError} `request.not_found`; `request.conflict` for another base model, or deleted initial weights; `request.invalid` for an untrainable base model, or a shape that its trainer does not support
 * @throws {StoreError} `store.model_archived`
 */
export async function trainableModel(
  request: FastifyRequest,
  parts: RouteParts,
  modelId: string,
): Promise<{ readonly model: Model; readonly limits: TrainerLimits | null }> {
  const model = await ownedModel(request, parts, modelId);
  refuseArchived(model);
  const base = baseOf(model, parts);
  if (base !== null) refuseUntrainable(base, 'model_id');
  const limits = await trainerLimits(parts, model.baseModel);
  refuseShape(model.lora, limits, 'model_id');
  if (model.warmStart !== null && (await parts.store.checkpoints.latest(model.id)) === null)
    throw warmStartIsGone(model);
  return { model, limits };
}

/**
 * Base model of a model; null while it is being fetched, and its jobs wait.
 * @throws {RequestError} `request.conflict` if it is not served
 */
export function baseOf(model: Model, { baseModels, hub }: RouteParts): BaseModel | null {
  if (baseModels.find(model.baseModel) === null && hub?.isComing(model.baseModel) === true) return null;
  return baseModels.under(model, { field: 'model_id' });
}

/** Stands for a limit of a base model that is not here yet: the job checks it when it runs. */
export const UNKNOWN_LIMIT = 0x7fff_ffff;

export interface Submission {
  readonly model: Model;
  readonly kind: TrainingJobConfig;
  readonly dataPrefix: 'groups' | 'sft';
  /** Step named in the settings: its weights are kept from now on. */
  readonly referenceStep?: number | null;
  /**
   * Writes the job's data to the blob.
   * @returns the settings for the row, and rewards and contents of its trajectories
   */
  readonly store: (dataKey: string) => Promise<{
    readonly settings: { readonly ignoredKeys: string[] };
    readonly rewards?: GroupRewards;
    readonly contents?: GroupContents;
  }>;
}

/**
 * Stores a job's data, queues the job and notifies the worker. After a failure there is neither job nor data.
 * @param completes makes the answer part of the transaction
 */
export async function submitJob(
  request: FastifyRequest,
  parts: RouteParts,
  { model, kind, dataPrefix, referenceStep = null, store }: Submission,
  completes: Completes,
): Promise<TrainingJobObject> {
  const id = randomUUID();
  const dataKey = `${dataPrefix}/${id}`;
  try {
    await parts.store.files.announce(dataKey);
    const { settings: config, rewards, contents } = await store(dataKey);
    const job = await answerOfNewJob({ id, model, kind, config: { ...config } }, parts);
    const stored = completes(job);
    const enqueuing = parts.store.jobs.enqueue({
      id,
      modelId: model.id,
      kind,
      config,
      dataKey,
      ...(rewards === undefined ? {} : { rewards }),
      ...(contents === undefined ? {} : { contents }),
      keyId: callerOf(request).keyId,
      origin: originOf(request),
      referenceStep,
      maxLive: MAX_LIVE_JOBS,
      ...(stored ? { completes: stored } : {}),
    });
    const enqueued = await refusedWhenFull(enqueuing, QUEUE_IS_FULL);
    if (enqueued === null) throw notFound('model', model.id, 'model_id');
    parts.training.notify();
    return job;
  } catch (error) {
    await removeUnlessNamed(parts, { key: dataKey, kind: 'blob' }, error);
    throw error;
  }
}

interface FutureJob {
  readonly id: string;
  readonly model: Model;
  readonly kind: TrainingJobConfig;
  readonly config: TrainingJob['config'];
}

/** Answer that is built before the job exists, because it is stored with it. */
export async function answerOfNewJob(input: FutureJob, parts: RouteParts): Promise<TrainingJobObject> {
  const row = newJob(input, parts.clock());
  const trained = await trainedBaseModels(parts.store, parts.training.baseModels);
  return toJobObject(row, {
    started: null,
    numGradientSteps: 0,
    warnings: [],
    waitingFor: waitingFor(row, trained, parts.hub),
  });
}

/** Future row of a job. */
function newJob(input: FutureJob, now: number): TrainingJob {
  return {
    id: input.id,
    modelId: input.model.id,
    turn: input.model.id,
    baseModel: input.model.baseModel,
    entityId: input.model.entityId,
    kind: input.kind,
    status: 'queued',
    pausedAt: null,
    position: 0,
    config: input.config,
    dataKey: '',
    keyId: null,
    origin: { requestId: null, traceParent: null, project: null },
    lease: null,
    start: null,
    snapshot: null,
    numAttempts: 0,
    errorMessage: null,
    createdAt: now,
    startedAt: null,
    finishedAt: null,
    dataRemovedAt: null,
  };
}
