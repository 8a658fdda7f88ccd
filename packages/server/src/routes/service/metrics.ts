import type { FastifyInstance } from 'fastify';

import type { ServiceMetrics } from '../../metrics/service-metrics.ts';
import { RequestError } from '../../faults/request-error.ts';
import type { RouteParts } from '../server-parts.ts';

/** Jobs are counted up to here: more are more than anybody waits for. */
const MAX_COUNTED_JOBS = 1000;

/** GET /metrics, in the text form of Prometheus. Counts every request of every route. */
export function metricsRoutes(app: FastifyInstance, parts: RouteParts, metrics: ServiceMetrics): void {
  const { store, inference, training, metricsAccess } = parts;
  const count = async (status: 'queued' | 'running') => {
    let number = 0;
    let after: string | undefined;
    do {
      const page = await store.listJobs({ status, limit: 100, ...(after === undefined ? {} : { after }) });
      number += page.items.length;
      after = page.hasMore ? page.items.at(-1)?.id : undefined;
    } while (after !== undefined && number < MAX_COUNTED_JOBS);
    return number;
  };
  metrics.sources = {
    inference,
    training,
    countJobs: async () => ({ queued: await count('queued'), running: await count('running') }),
  };
  app.addHook('onResponse', (request, reply, done) => {
    const handler = request.routeOptions.url ?? 'none';
    metrics.countRequest(handler, request.method, reply.statusCode, reply.elapsedTime / 1000);
    done();
  });
  app.get('/metrics', { config: { scope: metricsAccess === 'key' ? 'admin' : 'public' } }, async (_request, reply) => {
    if (metricsAccess === 'off')
      throw new RequestError('request.not_found', 'The metrics are off: the setting is `--metrics`');
    return reply.type(metrics.contentType).send(await metrics.text());
  });
}
