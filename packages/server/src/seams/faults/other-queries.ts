import type { FastifyInstance } from 'fastify';
import { refusesOtherQueries } from '@trainyard/protocol';

/**
 * Makes the routes of the preview API refuse query parameters that they do not have: a mistyped filter would answer with everything.
 * Routes of inference take any, as clients of other services send some of their own (`?beta=true`). Call it before the routes are registered.
 */
export function refuseOtherQueries(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (!refusesOtherQueries(route.url)) return;
    const own = (route.schema?.querystring as object | undefined) ?? { type: 'object', properties: {} };
    route.schema = { ...route.schema, querystring: { ...own, additionalProperties: false } };
  });
}
