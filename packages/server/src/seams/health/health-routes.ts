import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Liveness } from '@trainyard/protocol';

import type { ServiceHealth } from './service-health.ts';

const PUBLIC = { config: { scope: 'public' } } as const;
/** Seconds until a load balancer may retry. */
const RETRY_AFTER = '1';

/**
 * GET /livez: the process runs. GET /readyz: it accepts requests. GET /health: state of each part.
 * @param options.paths of /health; `isStrict`: status 503 while sampling is down
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
    // For load balancers that know only this path: requests work while training or the store has a problem.
    if (!isStrict || !answer.reasons.some(({ part }) => part === 'inference')) return await reply.send(answer);
    return await reply.code(503).header('retry-after', RETRY_AFTER).send(answer);
  };
  for (const path of paths) app.get(path, PUBLIC, report);
}
