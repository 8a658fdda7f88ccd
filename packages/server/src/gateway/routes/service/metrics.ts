import type { FastifyInstance } from 'fastify';

import { MinuteFigures } from '../../../seams/metrics/minute-figures.ts';
import { queueFigures } from '../../../seams/metrics/queue-figures.ts';
import { metricsScopes } from '../../../seams/metrics/metrics-access.ts';
import type { ServiceMetrics } from '../../../seams/metrics/service-metrics.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** GET /metrics, in Prometheus text format. Counts every request of every route. */
export function metricsRoutes(app: FastifyInstance, parts: RouteParts, metrics: ServiceMetrics): void {
  const { store, inference, training, metricsAccess } = parts;
  metrics.health.source = parts.health;
  const checkpoints = new MinuteFigures(() => store.retention.sum());
  metrics.sources = {
    inference,
    training,
    queue: () => queueFigures(store),
    checkpoints: () => checkpoints.read(),
  };
  metrics.keptAnswers.source = {
    numRunning: () => parts.background.numRunning,
    count: async () => ({
      answers: await store.keptAnswers.count(),
      conversations: await store.conversations.count(),
    }),
  };
  app.addHook('onResponse', (request, reply, done) => {
    const handler = request.routeOptions.url ?? 'none';
    metrics.countRequest(handler, request.method, reply.statusCode, reply.elapsedTime / 1000);
    done();
  });
  app.get('/metrics', { config: metricsScopes(metricsAccess) }, async (_request, reply) => {
    if (metricsAccess === 'off') throw new RequestError('request.not_found', 'Metrics are off (`--metrics`)');
    return reply.type(metrics.contentType).send(await metrics.text());
  });
}
