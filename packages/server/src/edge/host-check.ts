import type { FastifyInstance } from 'fastify';

import { hostNameOf, isAllowedName } from './network-names.ts';
import { RequestError } from '../faults/request-error.ts';

/**
 * Refuses requests for another name than the service's own: a page whose name was made to stand for this machine could read every answer
 * that takes no key.
 *
 * @param allowedHosts beside the loopback names
 */
export function refuseForeignHosts(app: FastifyInstance, allowedHosts: readonly string[]): void {
  app.addHook('onRequest', ({ headers }, _reply, done) => {
    const name = hostNameOf(headers.host);
    if (name !== null && isAllowedName(name, allowedHosts)) return done();
    const shown = JSON.stringify((headers.host ?? '').slice(0, 100));
    throw new RequestError(
      'request.host_not_allowed',
      `The service does not answer to the Host ${shown}; add its name to --allowed-hosts`,
      { param: 'Host' },
    );
  });
}
