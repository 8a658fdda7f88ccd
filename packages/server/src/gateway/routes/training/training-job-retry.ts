import { randomUUID } from 'node:crypto';

import type { FastifyInstance } from 'fastify';
import type { RetryJobResult, TrainingJob } from '@trainyard/store';
import type { TrainingConfig } from '@trainyard/trainer';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { resolveReferenceStep } from '../../../training-data/wire/reference-step.ts';
import { refusedWhenFull } from '../full-queue.ts';
import { originOf } from '../job-origin.ts';
import { notFound, ownedJob } from '../owned.ts';
import { answerOfNewJob, MAX_LIVE_JOBS, QUEUE_IS_FULL, trainableModel } from './submit-job.ts';

/** POST /v1/preview/training-jobs/{job_id}/retry: a new job with the data and settings of one that failed. */
export function trainingJobRetryRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, training } = parts;

  app.post<{ Params: { job_id: string } }>(
    '/v1/preview/training-jobs/:job_id/retry',
    { config: { scope: 'training' } },
    (request, reply) =>
      answerOnce(store, request, reply, async (completes) => {
        const before = await ownedJob(request, parts, request.params.job_id);
        const { model } = await trainableModel(request, parts, before.modelId);
        const id = randomUUID();
        const answer = await answerOfNewJob({ id, model, kind: before.kind, config: before.config }, parts);
        const stored = completes(answer);
        const retrying = store.jobs.retry(before.id, {
          id,
          keyId: callerOf(request).keyId,
          origin: originOf(request),
          maxLive: MAX_LIVE_JOBS,
          referenceStep: await referenceOf(before, model),
          ...(stored ? { completes: stored } : {}),
        });
        const result = await refusedWhenFull(retrying, QUEUE_IS_FULL);
        if (result === null) throw notFound('training job', before.id, 'job_id');
        if (result.kind !== 'queued') throw refusal(result);
        training.notify();
        return answer;
      }),
  );

  async function referenceOf(
    { kind, config }: TrainingJob,
    model: Parameters<typeof resolveReferenceStep>[1],
  ): Promise<number | null> {
    return kind === 'rl' ? await resolveReferenceStep(store, model, config['resolved'] as TrainingConfig) : null;
  }
}

const REASONS: Readonly<Record<Exclude<RetryJobResult['kind'], 'queued'>, string>> = {
  live: 'has not ended: wait for its end, or resume it if it is paused',
  succeeded: 'has succeeded, so there is nothing to try again',
  data_removed: 'has no data any more: they were removed after --trajectory-days. Send the rollouts in a new job',
};

function refusal({ kind, job }: Exclude<RetryJobResult, { kind: 'queued' }>): RequestError {
  return new RequestError('request.conflict', `The training job ${job.id} ${REASONS[kind]}`, { param: 'job_id' });
}
