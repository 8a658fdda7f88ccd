import type { FastifyInstance } from 'fastify';

import { hostNameOf, isAllowedName } from '../../seams/network/network-names.ts';
import { RequestError } from '../../seams/faults/request-error.ts';

/**
 * Refuses requests for another host name than the service's own (DNS rebinding): a page whose name resolves
 * to this machine could read every answer that needs no key.
 * @param allowedHosts in addition to the loopback names
 */
export function refuseForeignHosts(app: FastifyInstance, allowedHosts: readonly string[]): void {
  // Cached, because clients send the same name with every request.
  let allowed: string | undefined;
  app.addHook('onRequest', ({ headers, raw }, _reply, done) => {
    // RFC 9112, section 3.2. A proxy may have used the other header.
    if (numHosts(raw.rawHeaders) > 1)
      throw new RequestError('request.malformed', 'The request has several `Host` headers', { param: 'Host' });
    if (headers.host !== undefined && headers.host === allowed) return done();
    const name = hostNameOf(headers.host);
    if (name !== null && isAllowedName(name, allowedHosts)) {
      allowed = headers.host;
      return done();
    }
    const shown = JSON.stringify((headers.host ?? '').slice(0, 100));
    throw new RequestError('request.host_not_allowed', `The Host ${shown} is not allowed; add it to --allowed-hosts`, {
      param: 'Host',
    });
  });
}

/** @param headers names and values alternately */
function numHosts(headers: readonly string[]): number {
  let count = 0;
  for (let at = 0; at < headers.length; at += 2)
    if (headers[at]!.length === 4 && headers[at]!.toLowerCase() === 'host') count += 1;
  return count;
}
