import { once } from 'node:events';
import { createServer, isIP } from 'node:net';

import type { FastifyInstance } from 'fastify';

import { ServerError } from '../faults/server-error.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * @param portSetting setting of the port, for the message
 * @returns the address for clients
 * @throws {ServerError} `server.port_in_use`, `server.config_invalid`
 */
export async function listen(
  server: Pick<FastifyInstance, 'listen'>,
  { host, port }: Address,
  portSetting = 'TRAINYARD_PORT',
): Promise<string> {
  try {
    // Rollouts open thousands of connections in bursts, and clients give up connecting after 5 seconds.
    const url = await server.listen({ host, port, backlog: 65_535 });
    return isIP(host) === 0 ? url.replace(/\/\/[^:]+:/, `//${host}:`) : url;
  } catch (error) {
    throw listenFault(error as NodeJS.ErrnoException, { host, port }, portSetting);
  }
}

/**
 * Checks that the port is free. Another process may still take it before {@link listen}.
 * @throws {ServerError} as `listen`
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
