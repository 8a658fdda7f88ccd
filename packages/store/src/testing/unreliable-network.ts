import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';

export interface UnreliableNetwork {
  readonly origin: string;
  /** faults so far, by kind */
  readonly faults: Record<'refused' | 'cut' | 'lost' | 'busy', number>;
  close(): Promise<void>;
}

/**
 * Proxy to a server on which every n-th request meets a fault, in turn: the connection ends before the
 * request or within the answer, the request is done but its answer is lost, or the server is busy.
 * @param every requests per fault, default 5
 */
export async function unreliableNetwork(to: string, every = 5): Promise<UnreliableNetwork> {
  const faults = { refused: 0, cut: 0, lost: 0, busy: 0 };
  const kinds = Object.keys(faults) as (keyof typeof faults)[];
  const { hostname, port } = new URL(to);
  let count = 0;
  const server: Server = createServer((incoming, outgoing) => {
    const number = count++;
    const fault = number % every === every - 1 ? kinds[Math.floor(number / every) % kinds.length]! : null;
    if (fault !== null) faults[fault]++;
    if (fault === 'refused') return void incoming.socket.destroy();
    if (fault === 'busy') {
      incoming.resume();
      outgoing.writeHead(503).end('<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>');
      return;
    }
    const { method, url, headers } = incoming;
    const forwarded = request({ hostname, port, method, path: url, headers }, (answer) => {
      if (fault === 'lost') return void answer.resume().on('end', () => incoming.socket.destroy());
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      if (fault === 'cut') return void answer.resume().on('end', () => incoming.socket.destroy());
      answer.pipe(outgoing);
    });
    forwarded.on('error', () => incoming.socket.destroy());
    incoming.pipe(forwarded);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    origin: `http://127.0.0.1:${address.port}`,
    faults,
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
