import type { FastifyInstance } from 'fastify';
import type { TrainingQueueObject } from '@trainyard/protocol';

import { callerOf } from '../../edge/auth.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

const MAX_JOBS = 1000;

/** GET /v1/preview/training-queue. */
export function trainingQueueRoutes(app: FastifyInstance, { store }: RouteParts): void {
  app.get(
    '/v1/preview/training-queue',
    { config: { scope: 'training' } },
    async (request): Promise<TrainingQueueObject> => {
      const queue = await store.jobs.listQueue({ entityId: callerOf(request).entityId, limit: MAX_JOBS });
      const data = queue.map(async ({ job, numAhead }) => {
        const hasBegun = job.startedAt !== null;
        const query = { jobId: job.id, type: 'training_started', limit: 1 } as const;
        const [started] = hasBegun ? ((await store.jobs.listEvents(query))?.items ?? []) : [];
        const numSteps = started?.data['num_sequences'];
        return {
          id: job.id,
          model_id: job.modelId,
          kind: job.kind,
          status: job.status === 'running' ? 'running' : 'queued',
          is_paused: job.pausedAt !== null,
          num_ahead: numAhead,
          created_at: Math.floor(job.createdAt / 1000),
          num_gradient_steps_done: hasBegun ? await store.jobs.countEvents(job.id, 'gradient_step') : 0,
          num_gradient_steps: typeof numSteps === 'number' ? numSteps : null,
        } as const;
      });
      return { object: 'list', data: await Promise.all(data) };
    },
  );
}
