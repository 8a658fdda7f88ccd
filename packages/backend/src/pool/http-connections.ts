import type { Agent, IncomingMessage, RequestOptions } from 'node:http';
import { urlToHttpOptions } from 'node:url';

// An import would load undici too (docs/traps.md).
const { Agent: HttpAgent, request: httpRequest } = process.getBuiltinModule('node:http');
const { Agent: HttpsAgent, request: httpsRequest } = process.getBuiltinModule('node:https');

export interface HttpConnectionsOptions {
  /** Request paths are below it. */
  readonly url: string;
  /** Name of the server in messages. */
  readonly name: string;
  /** Time limit of a connection, ms. */
  readonly connectMs: number;
  /** Idle connections are closed after this time, before the server closes them: a request sent then is lost. */
  readonly idleMs: number;
  readonly maxIdle: number;
  /** True: the connection includes the TLS handshake. False: only TCP. */
  readonly includesTls: boolean;
  /** Makes the caller's error: no connection within the limit, or one that closed without an answer. */
  readonly fail: (kind: 'unreachable' | 'lost', message: string) => Error;
  /** Converts an error before the connection was made. Default: unchanged. */
  readonly failUnconnected?: (error: Error) => Error;
}

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  /** JSON; null: none. */
  readonly body: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Kept connections to one HTTP server. Requests have no time limits except their signals: one may wait in the
 * server's queue for as long as needed.
 */
export class HttpConnections {
  readonly #options: HttpConnectionsOptions;
  readonly #agent: Agent;
  readonly #address: RequestOptions;
  /** Path prefix of servers below a proxy; usually empty. */
  readonly #below: string;
  readonly #open: typeof httpRequest;
  /** Socket event after which requests can be sent. */
  readonly #connected: 'connect' | 'secureConnect';

  constructor(options: HttpConnectionsOptions) {
    const { url, idleMs, maxIdle, includesTls } = options;
    this.#options = options;
    const address = new URL(url);
    this.#address = urlToHttpOptions(address);
    this.#below = address.pathname.replace(/\/+$/, '');
    const isSecure = address.protocol === 'https:';
    const kept = { keepAlive: true, scheduling: 'lifo', maxFreeSockets: maxIdle, timeout: idleMs } as const;
    this.#agent = isSecure ? new HttpsAgent(kept) : new HttpAgent(kept);
    this.#open = isSecure ? httpsRequest : httpRequest;
    this.#connected = isSecure && includesTls ? 'secureConnect' : 'connect';
  }

  close(): void {
    this.#agent.destroy();
  }

  /**
   * Sends a request. Resolves with the head of any answer, which the caller reads, resumes or destroys.
   * @throws the errors of `fail` and `failUnconnected`; system errors; the signal's reason
   */
  async send({ method, path, body, headers, signal }: HttpRequest): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const { name, connectMs, fail, failUnconnected = (error) => error } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    let isAnswered = false;
    const content =
      body === null ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
    const request = this.#open(
      {
        ...this.#address,
        path: `${this.#below}${path}`,
        method,
        agent: this.#agent,
        signal,
        headers: { ...headers, ...content },
      },
      (answer) => {
        isAnswered = true;
        resolve(answer);
      },
    );
    let isConnected = true;
    // Later errors, after the answer or a first error, are ignored.
    request.on('error', (error) => reject(isConnected ? error : failUnconnected(error)));
    // An answer that switches protocols closes the request without an error.
    request.once('close', () => {
      if (!isAnswered) reject(fail('lost', `${name} closed a request without a response`));
    });
    request.once('socket', (socket) => {
      if (!socket.connecting) return;
      isConnected = false;
      socket.on('error', () => undefined);
      const late = () => request.destroy(fail('unreachable', `${name} accepted no connection within ${connectMs} ms`));
      const timer = setTimeout(late, connectMs);
      socket.once('close', () => clearTimeout(timer));
      socket.once(this.#connected, () => {
        isConnected = true;
        clearTimeout(timer);
      });
    });
    request.end(body);
    return await promise;
  }
}

/** Text of a whole answer. @throws {RangeError} if it is larger */
export async function readAnswerText(answer: IncomingMessage, maxBytes: number): Promise<string> {
  const pieces: Buffer[] = [];
  let numBytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    numBytes += piece.length;
    if (numBytes > maxBytes) throw new RangeError(`the response is larger than ${maxBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}
