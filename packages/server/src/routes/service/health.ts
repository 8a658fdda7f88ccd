import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Health, PartCheck, SystemCheck, Version } from '@trainyard/protocol';

import type { Trouble } from '../../contract/backends.ts';
import type { RouteParts } from '../server-parts.ts';
import { SERVICE_VERSION } from '../../service/service-version.ts';

/**
 * GET /v1/health: whether the service works, and what of it does not. GET /v1/system-check: how each part is. GET /v1/version: which service.
 * None takes a key; some have a second path, where other servers have it.
 */
export function healthRoutes(app: FastifyInstance, parts: RouteParts): void {
  const troubles = {
    inference: () => parts.inference.trouble(),
    training: () => parts.training.trouble(),
    store: () => parts.store.trouble(),
    machine: () => parts.machine.trouble,
  };
  const health = async (_request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const asked = Object.entries(troubles) as [keyof typeof troubles, () => Trouble][];
    const answers = await Promise.all(asked.map(async ([part, trouble]) => ({ part, reason: await trouble() })));
    const reasons = answers.flatMap(({ part, reason }) => (reason === null ? [] : [{ part, reason }]));
    const notices = [...parts.notices()];
    const status = reasons.length === 0 ? 'healthy' : 'degraded';
    const answer: Health = { status, reasons, ...(notices.length > 0 && { notices }) };
    // What balances load asks for the status alone: requests still get answers while training or the store are in trouble.
    if (!reasons.some(({ part }) => part === 'inference')) return await reply.send(answer);
    return await reply.code(503).header('retry-after', '1').send(answer);
  };
  for (const path of ['/v1/health', '/health', '/ping']) app.get(path, { config: { scope: 'public' } }, health);

  for (const path of ['/v1/version', '/version'])
    app.get(path, { config: { scope: 'public' } }, (): Version => ({ version: SERVICE_VERSION }));

  app.get('/v1/system-check', { config: { scope: 'public' } }, async (_request, reply) => {
    const database = await check('database', async () => {
      await parts.store.ping();
      return true;
    });
    const inference = await check('inference', async () => (await parts.inference.trouble()) === null);
    const training = await check('training', async () => (await parts.training.trouble()) === null);
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
