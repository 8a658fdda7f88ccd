import { Agent as HttpAgent, type IncomingMessage, request as httpRequest, type RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { urlToHttpOptions } from 'node:url';

import type { EngineEvent } from '@trainyard/generation';
import { StoreError } from '@trainyard/store';

import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';
import { type EngineSecret, nonce } from '../wire/engine-secret.ts';
import { ENGINE_PROTOCOL } from '../wire/engine-protocol.ts';
import {
  ENGINE_PATHS,
  type EnginePath,
  type HelloAnswer,
  MAX_HELLO_BYTES,
  MAX_TEXT_CHARACTERS,
  PROTOCOL_HEADER,
  SIGNATURE_HEADER,
  STATUS,
} from '../wire/engine-wire.ts';
import { type Asked, ForgedFrame, readFrames } from '../wire/frames.ts';
import { isProof, nameOfEngine, sign, signHello } from '../wire/signature.ts';
import { readEvents } from '../../seams/contract/event-texts.ts';
import { fromWireFault, type WireFault } from '../wire/wire-fault.ts';
import { deadlineAfter } from './deadline.ts';
import { EngineFault } from './engine-fault.ts';

/** How long a connection may take. */
const CONNECT_MS = 3_000;
/** An idle connection is left before the engine leaves it, after 65 s. */
const IDLE_MS = 30_000;
const MAX_IDLE_CONNECTIONS = 256;
/** How long the end of an answer may stay behind its last text. */
const END_MS = 250;
/** By words of TLS, what an operator can do. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /certificate/,
    'it must match this name, be valid now, and come from an authority that Node.js knows; NODE_EXTRA_CA_CERTS=FILE adds one',
  ],
  [/wrong version number|packet length too long/, 'the server there does not speak TLS'],
];

/** Statuses of a proxy that does not reach the engine behind it; a 503 of the engine itself is signed. */
const OF_PROXIES: ReadonlySet<number> = new Set([502, 503, 504]);

interface Session {
  readonly id: string;
  count: number;
}

/** The head of an answer to a signed request, and that request. */
interface Answered {
  readonly answer: IncomingMessage;
  readonly asked: Asked;
}

/**
 * Requests to one engine, each signed. They have no time limits but those of their signals: a request may wait in the engine's queue for as long as it takes. What is
 * thrown is an {@link EngineFault}; what the back end there threw (`BackendFailure`, `RequestError`); a `StoreError` when that machine
 * does not get at an adapter; or the signal's reason.
 */
export class EngineLine {
  /** Its address, for messages. */
  readonly name: string;
  readonly #secret: EngineSecret;
  readonly #agent: HttpAgent;
  /** The address, read once. */
  readonly #address: RequestOptions;
  /** Stands in front of every path: nothing, but where a proxy has engines below paths. */
  readonly #below: string;
  readonly #open: typeof httpRequest;
  /** The event of a socket on which requests can be sent. */
  readonly #connected: 'connect' | 'secureConnect';
  /** Null until it has said hello, and again when the engine does not know it any more. */
  #session: Promise<Session> | null = null;

  /** @param url an origin; what requests ask for stands below it */
  constructor(url: string, secret: EngineSecret) {
    this.name = nameOfEngine(url);
    this.#secret = secret;
    const address = new URL(this.name);
    this.#address = urlToHttpOptions(address);
    this.#below = address.pathname.replace(/\/+$/, '');
    const options = {
      keepAlive: true,
      scheduling: 'lifo',
      maxFreeSockets: MAX_IDLE_CONNECTIONS,
      timeout: IDLE_MS,
    } as const;
    const isSecure = url.startsWith('https:');
    this.#agent = isSecure ? new HttpsAgent(options) : new HttpAgent(options);
    this.#open = isSecure ? httpsRequest : httpRequest;
    this.#connected = isSecure ? 'secureConnect' : 'connect';
  }

  /** Drops what is open. */
  close(): void {
    this.#agent.destroy();
  }

  /** The answer to one call. */
  async call<Answer>(path: EnginePath, body: object, signal: AbortSignal): Promise<Answer> {
    try {
      return JSON.parse(await this.#readText(await this.#ask(path, JSON.stringify(body), signal))) as Answer;
    } catch (error) {
      signal.throwIfAborted();
      throw this.#faultOf(error);
    }
  }

  /** The events of one request to sample; leaving the loop ends it there. @param text as `generateText` makes it */
  async *generate(text: string, signal: AbortSignal): AsyncGenerator<EngineEvent, void, undefined> {
    let answer: IncomingMessage | null = null;
    let isEnded = false;
    try {
      const answered = await this.#ask(ENGINE_PATHS.generate, text, signal);
      ({ answer } = answered);
      for await (const frame of this.#framesOf(answered)) {
        if (isEnded) break;
        for (const event of readEvents(frame)) {
          isEnded = event.kind === 'completed' || event.kind === 'failed';
          if (isEnded) expectEnd(answer);
          yield event;
          if (isEnded) break;
        }
      }
      if (!isEnded) throw new EngineFault('lost', `${this.name} broke off a stream`);
    } catch (error) {
      answer?.destroy();
      // Whatever came behind the end.
      if (isEnded) return;
      signal.throwIfAborted();
      throw this.#faultOf(error);
    } finally {
      // The end of the connection is the end of the request. One whose last event was read has nothing else to say, and its connection is used again, also by who
      // left with that event.
      if (!isEnded) answer?.destroy();
      else answer?.resume();
    }
  }

  /** The head of an answer of 200. A session that the engine does not know any more is begun anew, once. */
  async #ask(path: EnginePath, body: string, signal: AbortSignal): Promise<Answered> {
    for (let isAgain = false; ; isAgain = true) {
      const session = (this.#session ??= this.#hello());
      let opened: Session;
      try {
        opened = await session;
      } catch (error) {
        if (this.#session === session) this.#session = null;
        throw error;
      }
      opened.count += 1;
      const asked = { session: opened.id, count: opened.count };
      const signature = sign(this.#secret, { path, ...asked, body });
      const answer = await this.#send(path, body, { [SIGNATURE_HEADER]: signature }, signal);
      if (answer.statusCode === 200) return { answer, asked };
      if (answer.statusCode === STATUS.unauthorised) throw this.#unauthorised(answer);
      const text = await this.#readRefusal({ answer, asked });
      if (answer.statusCode === STATUS.unknownSession && !isAgain) {
        if (this.#session === session) this.#session = null;
        continue;
      }
      throw this.#refusalOf(answer, text);
    }
  }

  /** One for all who wait: whose signal ends it must not end it for the others, so it has none. */
  async #hello(): Promise<Session> {
    const random = nonce();
    const headers = {
      [SIGNATURE_HEADER]: signHello(this.#secret, this.name, random),
      [PROTOCOL_HEADER]: ENGINE_PROTOCOL,
    };
    const limit = deadlineAfter(CONNECT_MS);
    try {
      const answer = await this.#send(ENGINE_PATHS.hello, '{}', headers, limit.signal);
      if (answer.statusCode === STATUS.unauthorised) throw this.#unauthorised(answer);
      const text = await readHello(answer);
      if (answer.statusCode !== 200) throw this.#refusalOf(answer, text);
      const { session, proof } = JSON.parse(text) as HelloAnswer;
      if (isProof(this.#secret, proof, random, session)) return { id: session, count: 0 };
      throw new EngineFault('unfit', `${this.name} does not prove that it has the secret (TRAINYARD_ENGINE_SECRET)`);
    } catch (error) {
      if (limit.signal.aborted) throw new EngineFault('hangs', `${this.name} sent no hello within ${CONNECT_MS} ms`);
      throw this.#faultOf(error);
    } finally {
      limit.cancel();
    }
  }

  async #send(
    path: EnginePath,
    body: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const length = String(Buffer.byteLength(body));
    const request = this.#open(
      {
        ...this.#address,
        path: `${this.#below}${path}`,
        method: 'POST',
        agent: this.#agent,
        signal,
        headers: { ...headers, 'content-type': 'application/json', 'content-length': length },
      },
      resolve,
    );
    let isConnected = true;
    // One that breaks a second time, or after its answer, has nobody left to tell.
    request.on('error', (error) => reject(isConnected ? error : this.#unreachable(error)));
    // An answer that switches protocols closes it without a word.
    request.once('close', () => reject(new EngineFault('lost', `${this.name} closed a request without a response`)));
    request.once('socket', (socket) => {
      if (!socket.connecting) return;
      isConnected = false;
      socket.on('error', () => undefined);
      const late = () =>
        request.destroy(new EngineFault('unreachable', `${this.name} accepted no connection within ${CONNECT_MS} ms`));
      const timer = setTimeout(late, CONNECT_MS);
      socket.once('close', () => clearTimeout(timer));
      socket.once(this.#connected, () => {
        isConnected = true;
        clearTimeout(timer);
      });
    });
    request.end(body);
    return await promise;
  }

  /** Nothing of the request was taken. */
  #unreachable(error: Error): EngineFault {
    if (error instanceof EngineFault) return error;
    const { code = error.message } = error as NodeJS.ErrnoException;
    const remedy = REMEDIES.find(([words]) => words.test(error.message))?.[1];
    const why = remedy === undefined ? code : `${code}; ${remedy}`;
    return new EngineFault('unreachable', `${this.name} cannot be reached (${why})`, { cause: error });
  }

  #unauthorised(answer: IncomingMessage): EngineFault {
    answer.destroy();
    return new EngineFault(
      'unfit',
      `${this.name} rejects the secret: give both processes the same TRAINYARD_ENGINE_SECRET, and set --engine-url of the engine to this address`,
    );
  }

  /** The text of an answer that is not 200. @throws {EngineFault} when it is none of the engine's */
  async #readRefusal(answered: Answered): Promise<string> {
    try {
      return await this.#readText(answered);
    } catch (error) {
      const status = answered.answer.statusCode ?? 0;
      throw OF_PROXIES.has(status) ? this.#notThere(status) : error;
    }
  }

  /** It may have been there, and have taken the request. */
  #notThere(status: number): EngineFault {
    return new EngineFault('lost', `${this.name} cannot be reached by its proxy (HTTP ${status})`);
  }

  #refusalOf(answer: IncomingMessage, text: string): Error {
    const status = answer.statusCode ?? 0;
    switch (status) {
      case STATUS.refused:
        return fromWireFault(JSON.parse(text) as WireFault);
      case STATUS.draining:
        return new EngineFault('draining', `${this.name} accepts no new requests`);
      case STATUS.otherProtocol: {
        const { protocol, version } = JSON.parse(text) as HelloAnswer;
        return new EngineFault(
          'unfit',
          `${this.name} is release ${shown(version)} with protocol ${shown(protocol)}, this process is ${SERVICE_VERSION} with ${ENGINE_PROTOCOL}: run the same release everywhere`,
        );
      }
      default:
        if (OF_PROXIES.has(status)) return this.#notThere(status);
        return new EngineFault('failed', `${this.name} answered ${status} ${shown(text)}`);
    }
  }

  /** The one text of an answer. */
  async #readText(answered: Answered): Promise<string> {
    let found: string | null = null;
    try {
      for await (const text of this.#framesOf(answered)) {
        if (found === null) expectEnd(answered.answer);
        found ??= text;
      }
    } catch (error) {
      answered.answer.destroy();
      // Whatever came behind the end.
      if (found === null) throw error;
    }
    if (found === null) throw new EngineFault('lost', `${this.name} broke off a response`);
    return found;
  }

  /** Who stops reading them ends the answer, or lets it end. */
  #framesOf({ answer, asked }: Answered): AsyncGenerator<string, void, undefined> {
    const pieces = answer.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
    return readFrames(pieces, { secret: this.#secret, asked, status: answer.statusCode ?? 0 }, MAX_TEXT_CHARACTERS);
  }

  #faultOf(error: unknown): Error {
    if (error instanceof SyntaxError || error instanceof RangeError)
      return new EngineFault('unfit', `${this.name} sent an invalid response: ${error.message}`, { cause: error });
    if (error instanceof ForgedFrame)
      return new EngineFault('unfit', `${this.name}, or a proxy in between: ${error.message}`);
    const code = (error as NodeJS.ErrnoException).code;
    // Errors of ours have codes too, which are none of the system.
    const isOurs = error instanceof EngineFault || error instanceof StoreError;
    if (!(error instanceof Error) || isOurs || 'param' in error) return error as Error;
    return new EngineFault('lost', `${this.name} broke off (${code ?? error.message})`, { cause: error });
  }
}

/** The last text of an answer was read: its end comes now, or its connection goes. */
function expectEnd(answer: IncomingMessage): void {
  const timer = setTimeout(() => answer.destroy(), END_MS).unref();
  answer.once('close', () => clearTimeout(timer));
}

/** The text of an answer that nobody has signed. */
async function readHello(answer: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let numBytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    numBytes += piece.length;
    if (numBytes > MAX_HELLO_BYTES) throw new RangeError(`a hello has more than ${MAX_HELLO_BYTES} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** Makes what others sent into a part of a line of the log. */
function shown(text: unknown): string {
  return JSON.stringify(String(text).slice(0, 200));
}
