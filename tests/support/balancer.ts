import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 250;

/**
 * Round-robin balancer for API processes: calls `/readyz` of each four times a second, on its own connection,
 * and skips those not ready. Never retries: a closed port gives a 502.
 */
export class Balancer implements AsyncDisposable {
  /** Origins of the processes. */
  readonly targets = new Set<string>();
  readonly #ready = new Set<string>();
  readonly #server: Server;
  readonly #closed = new AbortController();
  #turn = 0;

  static async open(): Promise<Balancer> {
    const balancer = new Balancer();
    balancer.#server.listen(0, '127.0.0.1');
    await once(balancer.#server, 'listening');
    void balancer.#poll();
    return balancer;
  }

  private constructor() {
    this.#server = createServer((incoming, answer) => this.#pass(incoming, answer));
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get numReady(): number {
    return this.#ready.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #poll(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      await Promise.all([...this.targets].map((target) => this.#ask(target)));
      for (const target of this.#ready) if (!this.targets.has(target)) this.#ready.delete(target);
      await delay(POLL_MS);
    }
  }

  async #ask(target: string): Promise<void> {
    const options = { headers: { connection: 'close' }, signal: AbortSignal.timeout(2_000) };
    const isReady = await fetch(`${target}/readyz`, options).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) this.#ready.add(target);
    else this.#ready.delete(target);
  }

  #pass(incoming: IncomingMessage, answer: ServerResponse): void {
    const ready = [...this.#ready];
    const target = ready[this.#turn++ % Math.max(ready.length, 1)];
    if (target === undefined) return void answer.writeHead(502).end('no process is ready');
    const { method = 'GET', url = '/', headers } = incoming;
    const options = { method, headers: { ...headers, connection: 'close', host: new URL(target).host }, agent: false };
    const outgoing = request(new URL(url, target), options as object, (theirs) => {
      const { connection: _, ...rest } = theirs.headers;
      answer.writeHead(theirs.statusCode ?? 502, rest);
      theirs.once('error', () => answer.destroy());
      theirs.pipe(answer);
    });
    outgoing.once('error', ({ message }) => {
      if (answer.headersSent) answer.destroy();
      else answer.writeHead(502).end(message);
    });
    incoming.pipe(outgoing);
  }
}
