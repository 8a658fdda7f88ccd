import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Liveness } from '@trainyard/protocol';

import type { ServiceHealth } from './service-health.ts';

const PUBLIC = { config: { scope: 'public' } } as const;
/** Seconds after which a balancer may ask again. */
const RETRY_AFTER = '1';

/**
 * GET /livez: whether the process runs. GET /readyz: whether requests should go to it. GET /health: each part with its state.
 *
 * @param options.paths of the last; `isStrict`: it is 503 while nothing samples
 */
export function addHealthRoutes(
  app: FastifyInstance,
  health: ServiceHealth,
  { paths, isStrict }: { readonly paths: readonly string[]; readonly isStrict: boolean },
): void {
  app.get('/livez', PUBLIC, (): Liveness => ({ status: 'alive' }));
  app.get('/readyz', PUBLIC, async (_request, reply) => {
    const answer = await health.readiness();
    if (answer.status === 'ready') return await reply.send(answer);
    return await reply.code(503).header('retry-after', RETRY_AFTER).send(answer);
  });
  const report = async (_request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const answer = await health.report();
    // Balancers that know only this path: requests still get answers while training or the store are in trouble.
    if (!isStrict || !answer.reasons.some(({ part }) => part === 'inference')) return await reply.send(answer);
    return await reply.code(503).header('retry-after', RETRY_AFTER).send(answer);
  };
  for (const path of paths) app.get(path, PUBLIC, report);
}
