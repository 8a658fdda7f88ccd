import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type CreateSftTrainingJobRequest,
  CreateSftTrainingJobRequestSchema,
  type TrainingExampleList,
  type TrainingExamplesQuery,
  TrainingExamplesQuerySchema,
  type TrainingJobObject,
} from '@trainyard/protocol';
import { StoreError } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce, type Completes } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { openTrainingData, TRAINING_DATA_PLACE } from '../../../training-data/sources/open-training-data.ts';
import { fitSftConfig, readSftConfig, type SftSource, shownUrl } from '../../../training-data/wire/sft-config.ts';
import { conversationLine } from '../../../training-data/stored/stored-line.ts';
import { readSftLines } from '../../../training-data/wire/sft-data.ts';
import { ownedJob } from '../owned.ts';
import { baseOf, submitJob, trainableModel, UNKNOWN_LIMIT } from './submit-job.ts';

/** Default of `limit`. */
const MAX_SHOWN_EXAMPLES = 3;

/** POST /v1/preview/sft-training-jobs, GET /v1/preview/training-jobs/{job_id}/examples. */
export function sftJobRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: CreateSftTrainingJobRequest }>(
    '/v1/preview/sft-training-jobs',
    { config: { scope: 'training', submits: true }, schema: { body: CreateSftTrainingJobRequestSchema } },
    (request, reply) =>
      answerOnce(parts.store, request, reply, (completes) => createJob(request, request.body, completes)),
  );

  app.get<{ Params: { job_id: string }; Querystring: TrainingExamplesQuery }>(
    '/v1/preview/training-jobs/:job_id/examples',
    { config: { scope: 'training' }, schema: { querystring: TrainingExamplesQuerySchema } },
    async (request): Promise<TrainingExampleList> => {
      const job = await ownedJob(request, parts, request.params.job_id);
      const { limit = MAX_SHOWN_EXAMPLES } = request.query;
      const isKept = job.kind === 'sft' && job.dataRemovedAt === null;
      return { object: 'list', data: isKept ? await firstExamples(job.dataKey, limit) : [] };
    },
  );

  async function firstExamples(dataKey: string, limit: number): Promise<TrainingExampleList['data']> {
    const examples: TrainingExampleList['data'] = [];
    try {
      for await (const line of parts.blobs.getJsonLines(dataKey)) {
        examples.push(line as TrainingExampleList['data'][number]);
        if (examples.length === limit) break;
      }
    } catch (error) {
      // Removed during the read.
      if (!(error instanceof StoreError && error.code === 'store.blob_missing')) throw error;
    }
    return examples;
  }

  async function createJob(
    request: FastifyRequest,
    body: CreateSftTrainingJobRequest,
    completes: Completes,
  ): Promise<TrainingJobObject> {
    const { model } = await trainableModel(request, parts, body.model_id);
    const config = readSftConfig(body, baseOf(model, parts)?.contextLength ?? UNKNOWN_LIMIT);
    const data = await openTrainingData(body.training_data_url, callerOf(request), parts);
    const store = async (dataKey: string) => {
      let numExamples = 0;
      const counted = async function* () {
        for await (const line of readSftLines(data, TRAINING_DATA_PLACE)) {
          numExamples += 1;
          yield conversationLine(line);
        }
      };
      await parts.blobs.putJsonLines(dataKey, counted());
      if (numExamples === 0) {
        const msg = 'Data should have at least one conversation';
        throw RequestError.invalid([{ loc: [...TRAINING_DATA_PLACE], msg, type: 'too_short' }]);
      }
      const source: SftSource = { url: shownUrl(body.training_data_url), numLines: numExamples };
      return { settings: { ...fitSftConfig(config, numExamples), source } };
    };
    return await submitJob(request, parts, { model, kind: 'sft', dataPrefix: 'sft', store }, completes);
  }
}
