import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';

/** One request and its answer, with times of `performance.now()`. */
export interface Exchange {
  readonly method: string;
  readonly path: string;
  /** Text of the request; empty unless the proxy keeps it. */
  readonly body: string;
  readonly startedAt: number;
  /** Null until the answer has ended. */
  readonly endedAt: number | null;
  /** Size of the answer so far, bytes. */
  readonly answerBytes: number;
}

/** HTTP proxy that records the arrival of each request and the end of its answer. */
export class WatchedProxy implements AsyncDisposable {
  readonly exchanges: Exchange[] = [];
  /** Called at the end of an answer. */
  onEnd: (exchange: Exchange) => void = () => {};
  readonly #target: string;
  readonly #keepsBodies: boolean;
  readonly #server: Server;

  /** @param target Origin for the requests. */
  static async open(target: string, { keepsBodies = false }: { keepsBodies?: boolean } = {}): Promise<WatchedProxy> {
    const proxy = new WatchedProxy(target, keepsBodies);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  private constructor(target: string, keepsBodies: boolean) {
    this.#target = target;
    this.#keepsBodies = keepsBodies;
    this.#server = createServer({ keepAliveTimeout: 65_000 }, (incoming, answer) => this.#pass(incoming, answer));
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(incoming: IncomingMessage, answer: ServerResponse): void {
    const { method = 'GET', url = '/', headers } = incoming;
    const { hostname, port } = new URL(this.#target);
    const startedAt = performance.now();
    const exchange = { method, path: url, body: '', startedAt, endedAt: null as number | null, answerBytes: 0 };
    this.exchanges.push(exchange);
    // Keeps the client's `host` header, because signatures cover it.
    const outgoing = request({ hostname, port, method, path: url, headers }, (theirs) => {
      answer.writeHead(theirs.statusCode ?? 502, theirs.headers);
      theirs.on('data', (bytes: Buffer) => (exchange.answerBytes += bytes.length));
      theirs.once('end', () => {
        exchange.endedAt = performance.now();
        this.onEnd(exchange);
      });
      theirs.once('error', () => answer.destroy());
      theirs.pipe(answer);
    });
    outgoing.once('error', () => answer.destroy());
    answer.once('close', () => outgoing.destroy());
    if (this.#keepsBodies) incoming.on('data', (bytes: Buffer) => (exchange.body += bytes.toString('latin1')));
    incoming.pipe(outgoing);
  }
}
