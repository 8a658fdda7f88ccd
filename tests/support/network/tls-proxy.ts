/**
 * A program that ends TLS at an address and passes the bytes to a loopback port. After SIGUSR1 it accepts
 * connections without answering handshakes; after SIGUSR2 it works again.
 *
 *   node tls-proxy.ts ADDRESS PORT CERTIFICATE KEY TO
 */
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';

const [address = '', port = '', certificate = '', key = '', to = ''] = process.argv.slice(2);
const secureContext = createSecureContext({ cert: readFileSync(certificate), key: readFileSync(key) });
let isStalling = false;
process.on('SIGUSR1', () => (isStalling = true)).on('SIGUSR2', () => (isStalling = false));

createServer((socket) => {
  socket.on('error', () => socket.destroy());
  if (isStalling) return;
  const near = new TLSSocket(socket, { isServer: true, secureContext });
  const far = connect(Number(to), '127.0.0.1');
  for (const [from, other] of [
    [near, far],
    [far, near],
  ] as const)
    from.on('error', () => other.destroy()).on('close', () => other.destroy());
  near.pipe(far).pipe(near);
}).listen(Number(port), address, () => console.log('ready'));
