import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type ListPage,
  type TokenSequenceObject,
  type TrajectoryContent,
  type TrajectoryObject,
  type TrajectoryPageQuery,
  TrajectoryPageQuerySchema,
  type TrajectoryTokens,
} from '@trainyard/protocol';
import { StoreError, type TrajectoryRecord, type TrajectorySummary } from '@trainyard/store';
import { decodeTokenTrace, type ReadSequence } from '@trainyard/trainer';

import { callerOf } from '../../edge/auth.ts';
import { toListPage } from '../../answers/paging.ts';
import { readStoredGroup } from '../../training-data/stored-group.ts';
import type { RouteParts } from '../server-parts.ts';
import { notFound, ownedModel } from '../owned.ts';

/** GET /v1/preview/models/{model_id}/trajectories, /v1/preview/trajectories/{trajectory_id} and …/tokens. */
export function trajectoryRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, blobs } = parts;
  type OneRoute = { Params: { trajectory_id: string } };
  const config = { scope: 'training' } as const;

  app.get<{ Params: { model_id: string }; Querystring: TrajectoryPageQuery }>(
    '/v1/preview/models/:model_id/trajectories',
    { config, schema: { querystring: TrajectoryPageQuerySchema } },
    async (request): Promise<ListPage<TrajectoryObject>> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const { job_id: jobId, log_id: logId, group: groupIndex, ...query } = request.query;
      const page = await store.listTrajectories({
        ...query,
        modelId: model.id,
        ...(jobId === undefined ? {} : { jobId }),
        ...(logId === undefined ? {} : { logId }),
        ...(groupIndex === undefined ? {} : { groupIndex }),
      });
      return toListPage(page, toTrajectoryObject);
    },
  );

  app.get<OneRoute>(
    '/v1/preview/trajectories/:trajectory_id',
    { config },
    async (request): Promise<TrajectoryContent> => {
      const record = await owned(request);
      const group = await groupOf(record);
      const { trajectories, ...rest } = group ?? { trajectories: [] };
      return {
        ...toTrajectoryObject(record),
        content: (trajectories[record.trajectoryIndex] as Record<string, unknown> | undefined) ?? null,
        group_content: group === null ? null : rest,
      };
    },
  );

  app.get<OneRoute>(
    '/v1/preview/trajectories/:trajectory_id/tokens',
    { config },
    async (request): Promise<TrajectoryTokens> => {
      const record = await owned(request);
      const traces = await store.listTokenTraces(record.id);
      return {
        ...toTrajectoryObject(record),
        sequences: traces.flatMap(({ gradientStep, trace }) =>
          decodeTokenTrace(trace).map((sequence) => toSequenceObject(gradientStep, sequence)),
        ),
      };
    },
  );

  async function owned(request: FastifyRequest<OneRoute>): Promise<TrajectoryRecord> {
    const { trajectory_id: id } = request.params;
    const record = await store.getTrajectory(id);
    if (record === null || record.entityId !== callerOf(request).entityId)
      throw notFound('trajectory', id, 'trajectory_id');
    return record;
  }

  /** Null when its words are gone. */
  async function groupOf({ blobKey, groupIndex }: TrajectoryRecord) {
    if (blobKey === null) return null;
    try {
      return await readStoredGroup(blobs, blobKey, groupIndex);
    } catch (error) {
      // They went while this was asked.
      if (error instanceof StoreError && error.code === 'store.blob_missing') return null;
      throw error;
    }
  }
}

function toTrajectoryObject(summary: TrajectorySummary): TrajectoryObject {
  return {
    id: summary.id,
    model_id: summary.modelId,
    job_id: summary.jobId,
    log_id: summary.logId,
    split: summary.split,
    step: summary.step,
    group: summary.groupIndex,
    index: summary.trajectoryIndex,
    reward: summary.reward,
    outcome: summary.outcome,
    advantage: summary.advantage,
  };
}

function toSequenceObject(gradientStep: number, sequence: ReadSequence): TokenSequenceObject {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return {
    gradient_step: gradientStep,
    advantage: sequence.advantage,
    weight: sequence.weight,
    token_ids: [...sequence.tokenIds],
    texts: sequence.tokenBytes.map((bytes) => decoder.decode(bytes)),
    is_trained: Array.from(sequence.trainedLogprobs, (logprob) => !Number.isNaN(logprob)),
    sampled_logprobs: Array.from(sequence.sampledLogprobs, finiteOrNull),
    trained_logprobs: Array.from(sequence.trainedLogprobs, finiteOrNull),
  };
}

/** JSON has neither NaN nor infinity. */
function finiteOrNull(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
