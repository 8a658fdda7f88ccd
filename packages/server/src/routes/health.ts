import type { FastifyInstance } from 'fastify';
import type { Health, PartCheck, SystemCheck, Version } from '@trainyard/protocol';

import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { SERVICE_VERSION } from '../service-version.ts';

/**
 * GET /v1/health: 200 only when both back ends work. GET /v1/system-check: how each part is. GET /v1/version: which service.
 * None takes a key; some have a second path, where other servers have it.
 */
export function healthRoutes(app: FastifyInstance, parts: RouteParts): void {
  const health = async (): Promise<Health> => {
    const down = [
      parts.inference.isHealthy() ? [] : ['inference'],
      parts.training.isHealthy() ? [] : ['training'],
    ].flat();
    if (down.length === 0) return { status: 'ok' };
    throw new RequestError('server.unavailable', `Not ready: ${down.join(' and ')}`, {
      headers: { 'retry-after': '1' },
    });
  };
  for (const path of ['/v1/health', '/health', '/ping']) app.get(path, { config: { scope: 'public' } }, health);

  for (const path of ['/v1/version', '/version'])
    app.get(path, { config: { scope: 'public' } }, (): Version => ({ version: SERVICE_VERSION }));

  app.get('/v1/system-check', { config: { scope: 'public' } }, async (_request, reply) => {
    const database = await check('database', async () => {
      await parts.store.ping();
      return true;
    });
    const inference = await check('inference', () => parts.inference.isHealthy());
    const training = await check('training', () => parts.training.isHealthy());
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

/** What went wrong inside is in the log of that part; here it is only named, since no key is asked for. */
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
