import type { IncomingMessage } from 'node:http';

import { deadlineAfter, HttpConnections, readAnswerText } from '@trainyard/backend';

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
/**
 * Closes an idle connection before vLLM's HTTP server does after 5 s: a request sent at that moment would be
 * lost.
 */
const IDLE_MS = 3_000;
const MAX_IDLE_CONNECTIONS = 64;
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
  readonly name: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #connections: HttpConnections;

  constructor({ address: { base, name }, apiKey, connectMs }: HttpLineOptions) {
    this.name = name;
    this.#headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
    this.#connections = new HttpConnections({
      url: base,
      name,
      connectMs,
      idleMs: IDLE_MS,
      maxIdle: MAX_IDLE_CONNECTIONS,
      includesTls: false,
      fail: (kind, message) => new ServerFailure(kind, message),
    });
  }

  close(): void {
    this.#connections.close();
  }

  /**
   * Text of a whole answer of 200.
   * @param timeoutMs from the first byte sent to the last received
   * @throws {ServerFailure}; the signal's reason
   */
  async text(method: string, path: string, body: string | null, limits: CallLimits): Promise<string> {
    const { timeoutMs, signal } = limits;
    const limit = timeoutMs === null ? null : deadlineAfter(timeoutMs);
    const ended = AbortSignal.any([signal, limit?.signal].filter((one) => one !== undefined));
    try {
      const answer = await this.#open({ method, path, body }, ended);
      return await readAnswerText(answer, MAX_ANSWER_BYTES);
    } catch (error) {
      if (limit?.signal.aborted === true && signal?.aborted !== true)
        throw new ServerFailure('hangs', `${this.name} did not respond to ${path} within ${timeoutMs} ms`, {
          cause: error,
        });
      signal?.throwIfAborted();
      throw this.#failureOf(error);
    } finally {
      limit?.cancel();
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
  async #open({ headers = {}, ...request }: LineRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const all = { ...headers, ...this.#headers };
    const answer = await this.#connections.send({ ...request, headers: all, signal });
    if (answer.statusCode === 200) return answer;
    const text = await readAnswerText(answer, MAX_ERROR_BYTES);
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

export interface CallLimits {
  /** null: none. */
  readonly timeoutMs: number | null;
  readonly signal?: AbortSignal;
}
