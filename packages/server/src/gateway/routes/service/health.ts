import type { FastifyInstance } from 'fastify';
import type { PartCheck, SystemCheck, Version } from '@trainyard/protocol';

import { addHealthRoutes } from '../../../seams/health/health-routes.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { SERVICE_VERSION } from '../../../seams/contract/service-version.ts';

/**
 * GET /livez, GET /readyz and GET /v1/health: see `addHealthRoutes`. GET /v1/system-check: how each part is. GET /v1/version: which service. None takes a key;
 * some have a second path, where other servers have it.
 */
export function healthRoutes(app: FastifyInstance, parts: RouteParts): void {
  addHealthRoutes(app, parts.health, { paths: ['/v1/health', '/health', '/ping'], isStrict: true });

  for (const path of ['/v1/version', '/version'])
    app.get(path, { config: { scope: 'public' } }, (): Version => ({ version: SERVICE_VERSION }));

  app.get('/v1/system-check', { config: { scope: 'public' } }, async (_request, reply) => {
    const database = await check('database', async () => {
      await parts.store.ping();
      return true;
    });
    const inference = await check('inference', async () => (await parts.inference.trouble()) === null);
    const training = await check('training', () => parts.training.trouble() === null);
    const isHealthy = database.success && inference.success && training.success;
    // The names of the two queues are the client's: the first is ours for sampling, the second for training.
    const answer: SystemCheck = {
      api: true,
      database: database.success,
      cpu_queue: inference,
      gpu_queue: training,
    };
    return reply.code(isHealthy ? 200 : 503).send(answer);
  });
}

/** Only names the part that failed, since this route needs no key; the details are in that part's log. */
async function check(name: string, isHealthy: () => boolean | Promise<boolean>): Promise<PartCheck> {
  const startedAt = performance.now();
  let success = false;
  try {
    success = await isHealthy();
  } catch {
    // Told by `success`.
  }
  return {
    success,
    duration: (performance.now() - startedAt) / 1000,
    errors: success ? [] : [`${name} is not available`],
  };
}
