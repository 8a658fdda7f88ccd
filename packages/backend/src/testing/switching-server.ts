import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/**
 * Starts a server that answers each request with 101, as if asked to switch protocols. @returns its address,
 * and a function that closes it
 */
export async function openSwitchingServer(): Promise<{ url: string; close: () => void }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void server.close(),
  };
}
