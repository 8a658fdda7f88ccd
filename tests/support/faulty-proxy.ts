import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Fault of a proxy for a vLLM server. `broken`: completions are 500 while the health is good, as after a GPU
 * error. `nan`, `positive`: streams have such log-probabilities. `away`: connections are closed.
 */
export type ProxyFault = 'broken' | 'nan' | 'positive' | 'away';

const COMPLETIONS = '/v1/completions';
const BROKEN = JSON.stringify({
  error: { message: 'CUDA error: out of memory', type: 'InternalServerError', param: null, code: 500 },
});

/** HTTP proxy for a real server, with one fault at a time. */
export class FaultyProxy implements AsyncDisposable {
  fault: ProxyFault | null = null;
  /** Address of the server; a new value simulates another server at the same address. */
  target: string;
  readonly #server: Server;

  private constructor(target: string) {
    this.target = target;
    this.#server = createServer((incoming, answer) => this.#pass(incoming, answer));
  }

  static async open(target: string): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(incoming: IncomingMessage, answer: ServerResponse): void {
    const { fault } = this;
    const isCompletion = incoming.url === COMPLETIONS;
    if (fault === 'away') {
      incoming.socket.destroy();
      return;
    }
    if (fault === 'broken' && isCompletion) {
      incoming.resume().once('end', () => answer.writeHead(500, { 'content-type': 'application/json' }).end(BROKEN));
      return;
    }
    const { method = 'GET', url = '/', headers } = incoming;
    const outgoing = request(new URL(url, this.target), { method, headers }, (theirs) => {
      answer.writeHead(theirs.statusCode ?? 502, theirs.headers);
      const isSpoiled = isCompletion && (fault === 'nan' || fault === 'positive');
      theirs.once('error', () => answer.destroy());
      if (!isSpoiled) theirs.pipe(answer);
      // The client aborts such an answer.
      else spoil(theirs, answer, fault === 'nan' ? 'null' : '3.0').catch(() => answer.destroy());
    });
    outgoing.once('error', () => answer.destroy());
    answer.once('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  }
}

/** Copies a stream, with each log-probability of a sampled token replaced. */
async function spoil(theirs: IncomingMessage, answer: ServerResponse, logprob: string): Promise<void> {
  theirs.setEncoding('utf8');
  let rest = '';
  for await (const piece of theirs as AsyncIterable<string>) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop()!;
    for (const line of lines)
      answer.write(`${line.replace(/"token_logprobs":\[[^\]]*\]/g, `"token_logprobs":[${logprob}]`)}\n`);
  }
  answer.end(rest);
}
