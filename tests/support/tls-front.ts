import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createServer } from 'node:tls';

import type { ServerCertificate } from './network/authority.ts';

/** A loopback listener that ends TLS and passes the bytes to another one. */
export async function openTlsFront(
  target: string,
  { certificate, key }: ServerCertificate,
): Promise<{ url: string; close(): Promise<void> }> {
  const { port: targetPort, pathname } = new URL(target);
  const sockets = new Set<Socket>();
  const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (near) => {
    const far = connect(Number(targetPort), '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
    }
    near.pipe(far).pipe(near);
  });
  // A client that does not trust the certificate aborts the handshake.
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}${pathname === '/' ? '' : pathname}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
