import type { FastifyInstance } from 'fastify';
import type { PartCheck, SystemCheck, Version } from '@trainyard/protocol';

import { addHealthRoutes } from '../../../seams/health/health-routes.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { SERVICE_VERSION } from '../../../seams/contract/service-version.ts';

/**
 * GET /livez, GET /readyz and GET /v1/health: see `addHealthRoutes`. GET /v1/system-check: state of each
 * part. GET /v1/version: version of the service. None needs a key; some have a second path, as on other
 * servers.
 */
export function healthRoutes(app: FastifyInstance, parts: RouteParts): void {
  addHealthRoutes(app, parts.health, { paths: ['/v1/health', '/health', '/ping'], isStrict: true });

  for (const path of ['/v1/version', '/version'])
    app.get(path, { config: { scope: 'public' } }, (): Version => ({ version: SERVICE_VERSION }));

  app.get('/v1/system-check', { config: { scope: 'public' } }, async (_request, reply) => {
    const database = await check('database', async () => {
      await parts.store.database.ping();
      return true;
    });
    const inference = await check('inference', async () => (await parts.inference.problem()) === null);
    const training = await check('training', () => parts.training.problem() === null);
    const isHealthy = database.success && inference.success && training.success;
    // The client's names for the two queues: the first is our sampling, the second our training.
    const answer: SystemCheck = {
      api: true,
      database: database.success,
      cpu_queue: inference,
      gpu_queue: training,
    };
    return reply.code(isHealthy ? 200 : 503).send(answer);
  });
}

/** Reports only the name of a failed part, because this route needs no key; details are in that part's log. */
async function check(name: string, isHealthy: () => boolean | Promise<boolean>): Promise<PartCheck> {
  const startedAt = performance.now();
  let success = false;
  try {
    success = await isHealthy();
  } catch {
    // `success` reports it.
  }
  return {
    success,
    duration: (performance.now() - startedAt) / 1000,
    errors: success ? [] : [`${name} is not available`],
  };
}
