import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type ListPage,
  type SampledChoiceObject,
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
import { abortOnDisconnect } from '../../answers/sse.ts';
import { BackendFailure } from '../../../seams/faults/backend-failure.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { sampledChoices } from '../../../training-data/stored/sampled-choices.ts';
import { searchTrajectories } from '../../../training-data/stored/search-trajectories.ts';
import { readStoredGroup } from '../../../training-data/stored/stored-group.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { notFound, ownedModel } from '../owned.ts';

/** GET /v1/preview/models/{model_id}/trajectories, /v1/preview/trajectories/{trajectory_id} and …/tokens. */
export function trajectoryRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, blobs, inference } = parts;
  type OneRoute = { Params: { trajectory_id: string } };
  const config = { scope: 'training' } as const;

  app.get<{ Params: { model_id: string }; Querystring: TrajectoryPageQuery }>(
    '/v1/preview/models/:model_id/trajectories',
    { config, schema: { querystring: TrajectoryPageQuerySchema } },
    async (request): Promise<ListPage<TrajectoryObject>> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const {
        job_id: jobId,
        log_id: logId,
        group: groupIndex,
        prompt_digest: promptDigest,
        min_reward: minReward,
        max_reward: maxReward,
        finish_reason: finishReason,
        text,
        ...rest
      } = request.query;
      const query = {
        ...rest,
        modelId: model.id,
        ...(promptDigest === undefined ? {} : { promptDigest }),
        ...(jobId === undefined ? {} : { jobId }),
        ...(logId === undefined ? {} : { logId }),
        ...(groupIndex === undefined ? {} : { groupIndex }),
        ...(minReward === undefined ? {} : { minReward }),
        ...(maxReward === undefined ? {} : { maxReward }),
        ...(finishReason === undefined ? {} : { finishReason }),
      };
      if (text === undefined) return toListPage(await store.trajectories.list(query), toTrajectoryObject);
      if (query.sort !== undefined && query.sort !== 'position') throw sortedSearch(query.sort);
      const { lastId, ...found } = await searchTrajectories(parts, query, text);
      const page = toListPage(found, ({ excerpt, ...summary }) => ({ ...toTrajectoryObject(summary), excerpt }));
      return { ...page, last_id: lastId };
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
    async (request, reply): Promise<TrajectoryTokens> => {
      const record = await owned(request);
      const traces = await store.trajectories.listTraces(record.id);
      return {
        ...toTrajectoryObject(record),
        sequences: traces.flatMap(({ gradientStep, trace }) =>
          decodeTokenTrace(trace).map((sequence) => toSequenceObject(gradientStep, sequence)),
        ),
        choices: traces.length > 0 ? [] : await choicesOf(record, abortOnDisconnect(reply)),
      };
    },
  );

  async function choicesOf(record: TrajectoryRecord, signal: AbortSignal): Promise<SampledChoiceObject[]> {
    const { blobKey, groupIndex, trajectoryIndex, modelId } = record;
    const trajectory = (await groupOf(record))?.trajectories[trajectoryIndex];
    if (blobKey === null || trajectory === undefined) return [];
    const choices = await sampledChoices(blobs, blobKey, { trajectory, groupIndex });
    const base = (await store.models.get(modelId))?.baseModel ?? '';
    return await Promise.all(
      choices.map(async ({ history, item, tokenIds, logprobs, tokenBytes }) => ({
        history,
        item,
        token_ids: [...tokenIds],
        texts: tokenBytes?.map(decode) ?? (await askTexts(base, tokenIds, signal)),
        sampled_logprobs: logprobs.map(finiteOrNull),
      })),
    );
  }

  /** Null if this process does not have the vocabulary, or those ids. */
  async function askTexts(base: string, tokenIds: readonly number[], signal: AbortSignal): Promise<string[] | null> {
    if (!inference.models.some(({ id }) => id === base)) return null;
    try {
      return await inference.of(base).tokenTexts(tokenIds, { signal });
    } catch (error) {
      if (error instanceof BackendFailure) return null;
      throw error;
    }
  }

  async function owned(request: FastifyRequest<OneRoute>): Promise<TrajectoryRecord> {
    const { trajectory_id: id } = request.params;
    const record = await store.trajectories.get(id);
    if (record === null || record.entityId !== callerOf(request).entityId)
      throw notFound('trajectory', id, 'trajectory_id');
    return record;
  }

  /** Null if its data were removed. */
  async function groupOf({ blobKey, groupIndex }: TrajectoryRecord) {
    if (blobKey === null) return null;
    try {
      return await readStoredGroup(blobs, blobKey, groupIndex);
    } catch (error) {
      // Removed during the read.
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
    prompt_digest: summary.promptDigest,
    created_at: Math.floor(summary.createdAt / 1000),
    question: summary.question,
    excerpt: summary.reply,
    num_turns: summary.numTurns,
    num_tokens: summary.numTokens,
    finish_reason: summary.finishReason,
    metrics: summary.metrics,
  };
}

function sortedSearch(sort: string): RequestError {
  const msg = `Input cannot be combined with \`sort=${sort}\`: the text search works only in order of arrival`;
  return RequestError.invalid([{ loc: ['query', 'text'], msg, type: 'value_error' }]);
}

function toSequenceObject(gradientStep: number, sequence: ReadSequence): TokenSequenceObject {
  return {
    gradient_step: gradientStep,
    advantage: sequence.advantage,
    weight: sequence.weight,
    token_ids: [...sequence.tokenIds],
    texts: sequence.tokenBytes.map(decode),
    is_trained: Array.from(sequence.trainedLogprobs, (logprob) => !Number.isNaN(logprob)),
    sampled_logprobs: Array.from(sequence.sampledLogprobs, finiteOrNull),
    trained_logprobs: Array.from(sequence.trainedLogprobs, finiteOrNull),
    entropies: sequence.entropies === null ? null : Array.from(sequence.entropies, finiteOrNull),
  };
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** JSON has neither NaN nor infinity. */
function finiteOrNull(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
