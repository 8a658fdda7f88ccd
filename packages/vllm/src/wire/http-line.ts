import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

import type { ServerAddress } from './server-address.ts';
import { failureOfAnswer, ServerFailure } from './server-failure.ts';
import { sseData } from './sse-data.ts';

export interface HttpLineOptions {
  readonly address: ServerAddress;
  /** Sent as a bearer token; null: none. */
  readonly apiKey: string | null;
  /** Time limit of a connection, ms. */
  readonly connectMs: number;
}

/** Size limit of an answer that is not streamed. */
const MAX_ANSWER_BYTES = 512 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
const MOMENT_MS = 250;
/**
 * Closes an idle connection before vLLM's HTTP server does after 5 s: a request sent at that moment would be
 * lost.
 */
const IDLE_MS = 3_000;
/** TLS error codes for a certificate that is not accepted. */
const UNTRUSTED = /CERT|LEAF_SIGNATURE/;
/** Codes for a connection that was not made. */
const NOT_CONNECTED: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

interface LineRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string | null;
  /** In addition to those of every request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Requests to one server. The only time limits are those requested: a stream may be silent while its request
 * waits in the server's queue.
 */
export class HttpLine {
  readonly #address: ServerAddress;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #connectMs: number;
  readonly #agent: HttpAgent;

  constructor({ address, apiKey, connectMs }: HttpLineOptions) {
    this.#address = address;
    this.#headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
    this.#connectMs = connectMs;
    const options = { keepAlive: true, scheduling: 'lifo', maxFreeSockets: 64, timeout: IDLE_MS } as const;
    this.#agent = address.base.startsWith('https:') ? new HttpsAgent(options) : new HttpAgent(options);
  }

  get name(): string {
    return this.#address.name;
  }

  close(): void {
    this.#agent.destroy();
  }

  /**
   * Text of a whole answer of 200.
   * @param timeoutMs from the first byte sent to the last received
   * @throws {ServerFailure}; the signal's reason
   */
  async text(method: string, path: string, body: string | null, limits: CallLimits): Promise<string> {
    const { timeoutMs, signal } = limits;
    const timeout = new AbortController();
    const cancel = timeoutMs === null ? () => {} : abortAfter(timeoutMs, timeout);
    const ended = AbortSignal.any(signal === undefined ? [timeout.signal] : [signal, timeout.signal]);
    try {
      const answer = await this.#open({ method, path, body }, ended);
      return await readText(answer, MAX_ANSWER_BYTES);
    } catch (error) {
      if (timeout.signal.aborted && signal?.aborted !== true)
        throw new ServerFailure('hangs', `${this.name} did not respond to ${path} within ${timeoutMs} ms`, {
          cause: error,
        });
      signal?.throwIfAborted();
      throw this.#failureOf(error);
    } finally {
      cancel();
    }
  }

  /**
   * Yields the data of the events of a streamed answer of 200.
   * @param headers in addition to those of every request
   * @throws {ServerFailure} also within the stream; the signal's reason
   */
  async *events(
    path: string,
    body: string,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): AsyncGenerator<string, void, undefined> {
    let answer: IncomingMessage | null = null;
    try {
      answer = await this.#open({ method: 'POST', path, body, headers }, signal);
      yield* sseData(answer);
      if (!answer.complete) throw new ServerFailure('lost', `${this.name} broke off a response`);
    } catch (error) {
      signal.throwIfAborted();
      throw this.#failureOf(error);
    } finally {
      // Leaving early ends the request on the server, too.
      if (answer !== null && !answer.complete) answer.destroy();
    }
  }

  /** Resolves with the head of an answer of 200. @throws {ServerFailure}; the signal's reason */
  async #open({ method, path, body, headers = {} }: LineRequest, signal: AbortSignal): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const url = `${this.#address.base}${path}`;
    const content =
      body === null ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
    const open = url.startsWith('https:') ? httpsRequest : httpRequest;
    const request = open(
      url,
      { method, agent: this.#agent, signal, headers: { ...headers, ...this.#headers, ...content } },
      resolve,
    );
    request.once('error', reject);
    // An answer that switches protocols closes it without an error.
    request.once('close', () => reject(new ServerFailure('lost', `${this.name} closed a request without a response`)));
    request.once('socket', (socket) => {
      if (!socket.connecting) return;
      const timer = setTimeout(
        () =>
          request.destroy(
            new ServerFailure('unreachable', `${this.name} accepted no connection within ${this.#connectMs} ms`),
          ),
        this.#connectMs,
      );
      const settle = (): void => clearTimeout(timer);
      socket.once('connect', settle);
      socket.once('close', settle);
    });
    request.end(body);
    const answer = await promise;
    if (answer.statusCode === 200) return answer;
    const text = await readText(answer, MAX_ERROR_BYTES);
    throw failureOfAnswer(this.name, answer.statusCode ?? 0, text);
  }

  #failureOf(error: unknown): ServerFailure {
    if (error instanceof ServerFailure) return error;
    const code = (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : String(error));
    if (UNTRUSTED.test(code))
      return new ServerFailure('untrusted', `the certificate of ${this.name} is not accepted (${code})`, {
        cause: error,
      });
    return NOT_CONNECTED.has(code)
      ? new ServerFailure('unreachable', `${this.name} cannot be reached (${code})`, { cause: error })
      : new ServerFailure('lost', `${this.name} broke off (${code})`, { cause: error });
  }
}

/**
 * Aborts after the time plus a moment: in a process that was suspended, timers fire before received data is
 * read. @returns cancels it
 */
function abortAfter(timeoutMs: number, controller: AbortController): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(() => controller.abort(), Math.min(timeoutMs, MOMENT_MS));
  }, timeoutMs);
  return () => clearTimeout(timer);
}

export interface CallLimits {
  /** null: none. */
  readonly timeoutMs: number | null;
  readonly signal?: AbortSignal;
}

async function readText(answer: IncomingMessage, maxBytes: number): Promise<string> {
  const pieces: Buffer[] = [];
  let numBytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    numBytes += piece.length;
    if (numBytes > maxBytes) {
      answer.destroy();
      throw new Error(`the response is larger than ${maxBytes} bytes`);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}
