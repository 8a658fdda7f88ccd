import Fastify, { type FastifyInstance } from 'fastify';
import type { Store } from '@trainyard/store';

import { requireKeys } from '../../gateway/edge/auth.ts';
import { refuseForeignHosts } from '../../gateway/edge/host-check.ts';
import { KeyWatch } from '../../gateway/edge/key-watch.ts';
import { trackRequestEnds } from '../../gateway/edge/request-end.ts';
import { answerEarly } from '../../seams/faults/early-answers.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { toErrorAnswer } from '../../seams/faults/http-faults.ts';
import { addHealthRoutes } from '../../seams/health/health-routes.ts';
import type { ServiceHealth } from '../../seams/health/service-health.ts';
import { type MetricsAccess, metricsScopes } from '../../seams/metrics/metrics-access.ts';
import type { ServiceMetrics } from '../../seams/metrics/service-metrics.ts';

export interface MetricsServerParts {
  readonly store: Store;
  readonly metrics: ServiceMetrics;
  readonly access: MetricsAccess;
  readonly health: ServiceHealth;
  /** Names allowed in `Host`, in addition to the loopback names. */
  readonly allowedHosts: readonly string[];
}

/** `/metrics` and the health of a process without other HTTP, protected like those of one with it. */
export function createMetricsServer(parts: MetricsServerParts): FastifyInstance {
  const { store, metrics, access, health, allowedHosts } = parts;
  const app = Fastify({ routerOptions: { ignoreTrailingSlash: true } });
  answerEarly(app);
  trackRequestEnds(app);
  app.setNotFoundHandler(() => {
    throw new RequestError('request.not_found', 'This port serves only /metrics, /livez, /readyz and /health');
  });
  app.setErrorHandler((error, _request, reply) => {
    const answer = toErrorAnswer(error, undefined);
    return reply.code(answer.status).headers(answer.headers).send(answer.body);
  });
  refuseForeignHosts(app, allowedHosts);
  requireKeys(app, store, new KeyWatch(store, () => store.clock.now()));
  app.get('/metrics', { config: metricsScopes(access) }, async (_request, reply) => {
    if (access === 'off') throw new RequestError('request.not_found', 'Metrics are off (`--metrics`)');
    return await reply.type(metrics.contentType).send(await metrics.text());
  });
  addHealthRoutes(app, health, { paths: ['/health'], isStrict: false });
  return app;
}
