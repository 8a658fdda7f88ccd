import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { hostNameOf, isLoopbackName } from '../../seams/network/network-names.ts';
import { RequestError } from '../../seams/faults/request-error.ts';

/** Entry for pages of this machine in a list of origins. */
const LOCAL_PAGES = 'localhost';
const EXPOSED_HEADERS = [
  'Allow',
  'Anthropic-RateLimit-Requests-Limit',
  'Anthropic-RateLimit-Requests-Remaining',
  'Anthropic-RateLimit-Requests-Reset',
  'Anthropic-RateLimit-Tokens-Limit',
  'Anthropic-RateLimit-Tokens-Remaining',
  'Anthropic-RateLimit-Tokens-Reset',
  'Content-Disposition',
  'ETag',
  'Idempotent-Replayed',
  'Retry-After',
  'Retry-After-Ms',
  'X-RateLimit-Limit-Requests',
  'X-RateLimit-Limit-Tokens',
  'X-RateLimit-Remaining-Requests',
  'X-RateLimit-Remaining-Tokens',
  'X-RateLimit-Reset-Requests',
  'X-RateLimit-Reset-Tokens',
  'X-Request-Id',
  'X-Should-Retry',
  'X-Trainyard-Ignored',
  'X-Trainyard-Left-Out',
].join(', ');
const METHODS = 'GET, HEAD, POST, PUT, DELETE';
/** Cache time of a preflight's answer in browsers, seconds. */
const MAX_AGE_SECONDS = 600;

/**
 * Cross-origin resource sharing: answers preflights without a key, and adds the headers that let other pages
 * read answers. No origin ever gets credentials: pages must know a key themselves, and the cookie of a
 * signed-in browser is only valid for pages of the service (`session-cookie.ts`).
 * @param allowedOrigins such as `https://app.example`; `localhost` means all pages of this machine, `*`
 * everyone. Pages of the service's own origin may always read.
 */
export function shareAcrossOrigins(app: FastifyInstance, allowedOrigins: readonly string[]): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers;
    if (!allowedOrigins.includes('*')) reply.header('vary', 'Origin');
    if (origin === undefined) return done();
    const isAllowed = isAllowedOrigin(origin, request.headers.host, allowedOrigins);
    if (isAllowed) {
      reply.header('access-control-allow-origin', allowedOrigins.includes('*') ? '*' : origin);
      reply.header('access-control-expose-headers', EXPOSED_HEADERS);
    }
    if (!isPreflight(request)) return done();
    if (isAllowed) {
      answerPreflight(request, reply);
      return;
    }
    throw new RequestError(
      'request.origin_not_allowed',
      `Pages of the origin ${JSON.stringify(origin.slice(0, 100))} may not use this service; add the origin to --allowed-origins`,
      { param: 'Origin' },
    );
  });
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

function answerPreflight({ headers }: FastifyRequest, reply: FastifyReply): void {
  const wanted = headers['access-control-request-headers'];
  // All headers are allowed: clients send their own, which have no effect here.
  if (wanted !== undefined) reply.header('access-control-allow-headers', wanted);
  if (headers['access-control-request-private-network'] === 'true')
    reply.header('access-control-allow-private-network', 'true');
  void reply
    .code(204)
    .header('access-control-allow-methods', METHODS)
    .header('access-control-max-age', MAX_AGE_SECONDS)
    .send();
}

function isAllowedOrigin(origin: string, host: string | undefined, allowed: readonly string[]): boolean {
  if (allowed.includes('*')) return true;
  const [, scheme, authority] = /^(https?):\/\/([^/]+)$/i.exec(origin) ?? [];
  if (scheme === undefined || authority === undefined) return false;
  const isOwn = authority.toLowerCase() === host?.toLowerCase();
  const name = hostNameOf(authority);
  const isLocal = name !== null && isLoopbackName(name) && allowed.includes(LOCAL_PAGES);
  return isOwn || isLocal || allowed.some((entry) => entry.toLowerCase() === origin.toLowerCase());
}
