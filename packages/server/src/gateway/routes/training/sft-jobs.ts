import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type CreateSftTrainingJobRequest,
  CreateSftTrainingJobRequestSchema,
  type TrainingJobObject,
} from '@trainyard/protocol';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce, type Completes } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { openTrainingData, TRAINING_DATA_PLACE } from '../../../training-data/sources/open-training-data.ts';
import { fitSftConfig, readSftConfig } from '../../../training-data/wire/sft-config.ts';
import { conversationLine } from '../../../training-data/stored/stored-line.ts';
import { readSftLines } from '../../../training-data/wire/sft-data.ts';
import { baseOf, submitJob, trainableModel } from './submit-job.ts';

/** POST /v1/preview/sft-training-jobs. Status and events are those of any training job. */
export function sftJobRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: CreateSftTrainingJobRequest }>(
    '/v1/preview/sft-training-jobs',
    { config: { scope: 'training', submits: true }, schema: { body: CreateSftTrainingJobRequestSchema } },
    (request, reply) =>
      answerOnce(parts.store, request, reply, (completes) => createJob(request, request.body, completes)),
  );

  async function createJob(
    request: FastifyRequest,
    body: CreateSftTrainingJobRequest,
    completes: Completes,
  ): Promise<TrainingJobObject> {
    const { model } = await trainableModel(request, parts, body.model_id);
    const config = readSftConfig(body, baseOf(model, parts).contextLength);
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
      return { settings: fitSftConfig(config, numExamples) };
    };
    return await submitJob(request, parts, { model, kind: 'sft', dataPrefix: 'sft', store }, completes);
  }
}
