import type { FastifyInstance, FastifyRequest } from 'fastify';

import { RequestError } from './request-error.ts';

/**
 * Answers requests that match no route, before their body is read: 404, or 405 with `Allow` when the path exists with other methods.
 * Call it before the routes are registered.
 */
export function refuseRouteMisses(app: FastifyInstance): void {
  const methodsByPattern = new Map<string, { pattern: RegExp; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const known = methodsByPattern.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() };
    for (const name of [method].flat()) known.methods.add(name);
    methodsByPattern.set(url, known);
  });
  const refuse = (request: FastifyRequest): never => {
    const path = request.url.split('?')[0] ?? '';
    const methods = [...methodsByPattern.values()]
      .filter(({ pattern }) => pattern.test(path))
      .flatMap((known) => [...known.methods]);
    if (methods.length === 0) throw new RequestError('request.not_found', 'Not Found');
    throw new RequestError('request.method_not_allowed', 'Method Not Allowed', {
      headers: { allow: methods.toSorted().join(', ') },
    });
  };
  app.addHook('onRequest', async (request) => {
    if (request.is404) refuse(request);
  });
  app.setNotFoundHandler(refuse);
}

/** `/v1/x/:id` → a path with one segment there, `/v1/x/*` with any number; a trailing slash is the same path. */
function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((segment) =>
      segment === '*' ? '.+' : segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    );
  return new RegExp(`^${segments.join('/')}/?$`);
}
