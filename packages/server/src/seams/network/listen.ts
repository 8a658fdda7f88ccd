import { once } from 'node:events';
import { createServer, isIP } from 'node:net';

import type { FastifyInstance } from 'fastify';

import { ServerError } from '../faults/server-error.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * @param portSetting where another port is set, for the message
 * @returns the address as others write it
 * @throws {ServerError} `server.port_in_use`, `server.config_invalid`
 */
export async function listen(
  server: Pick<FastifyInstance, 'listen'>,
  { host, port }: Address,
  portSetting = 'TRAINYARD_PORT',
): Promise<string> {
  try {
    // Rollouts come in bursts of thousands of connections, and clients give up on connecting after 5 seconds.
    const url = await server.listen({ host, port, backlog: 65_535 });
    return isIP(host) === 0 ? url.replace(/\/\/[^:]+:/, `//${host}:`) : url;
  } catch (error) {
    throw listenFault(error as NodeJS.ErrnoException, { host, port }, portSetting);
  }
}

/**
 * Tries to listen, and stops at once: somebody else may still come before {@link listen}.
 * @throws {ServerError} as of `listen`
 */
export async function refuseTakenPort({ host, port }: Address, portSetting = 'TRAINYARD_PORT'): Promise<void> {
  const probe = createServer();
  try {
    await once(probe.listen({ host, port }), 'listening');
  } catch (error) {
    throw listenFault(error as NodeJS.ErrnoException, { host, port }, portSetting);
  }
  probe.close();
  await once(probe, 'close');
}

/** A failure of listening, for whoever started the service. */
export function listenFault(
  { code, message }: NodeJS.ErrnoException,
  { host, port }: Address,
  portSetting = 'TRAINYARD_PORT',
): ServerError {
  return code === 'EADDRINUSE'
    ? new ServerError(
        'server.port_in_use',
        `port ${port} on ${host} is in use; stop the process there or set ${portSetting}`,
      )
    : new ServerError('server.config_invalid', `cannot listen on ${host}:${port}: ${message}`);
}
