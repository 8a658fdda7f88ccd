import type { FastifyInstance } from 'fastify';
import { refusesOtherQueries } from '@trainyard/protocol';

/**
 * Makes preview routes refuse unknown query parameters: a mistyped filter would return everything. Inference
 * routes accept any, because clients of other services send their own (`?beta=true`). Call it before the
 * routes are registered.
 */
export function refuseOtherQueries(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (!refusesOtherQueries(route.url)) return;
    const own = (route.schema?.querystring as object | undefined) ?? { type: 'object', properties: {} };
    route.schema = { ...route.schema, querystring: { ...own, additionalProperties: false } };
  });
}
