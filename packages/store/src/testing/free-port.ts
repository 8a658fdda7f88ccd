import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/**
 * Returns a free port of the loopback interface. Scripts have their own version
 * (`lab/free-port.mjs`), because they run before anything is installed.
 */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}
