import type { FastifyInstance } from 'fastify';

import { RequestError } from '../faults/request-error.ts';

/** End of this process: it first reports that it drains, then accepts no new connections. */
export class Drain {
  #isDraining = false;

  get isDraining(): boolean {
    return this.#isDraining;
  }

  begin(): void {
    this.#isDraining = true;
  }
}

/**
 * Refuses requests on open connections after the port has closed, in the form of every error: Fastify's own
 * answer differs (`return503OnClosing`).
 */
export function refuseWhileClosing(app: FastifyInstance): void {
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
  });
  app.addHook('onRequest', (_request, reply, done) => {
    if (!isClosing) return done();
    reply.header('connection', 'close');
    done(new RequestError('server.unavailable', 'The service is shutting down. Send the request again.'));
  });
}

/**
 * While the process is ending, each answer closes its connection: the client's next request goes to another
 * process.
 */
export function closeWhileDraining(app: FastifyInstance, drain: Drain): void {
  app.addHook('onRequest', (_request, reply, done) => {
    if (drain.isDraining) reply.header('connection', 'close');
    done();
  });
  // Also for requests that came before the drain.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (drain.isDraining) reply.header('connection', 'close');
    done();
  });
}
