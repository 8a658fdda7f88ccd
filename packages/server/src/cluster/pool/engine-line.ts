import type { IncomingMessage } from 'node:http';

import { deadlineAfter, HttpConnections, readAnswerText } from '@trainyard/backend';
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
import { EngineFault } from './engine-fault.ts';

/** Time limit of a connection. */
const CONNECT_MS = 3_000;
/** Idle connections are closed before the engine closes them, after 65 s. */
const IDLE_MS = 30_000;
const MAX_IDLE_CONNECTIONS = 256;
/** Maximum time between an answer's last text and its end. */
const END_MS = 250;
/** Remedies for the operator, by text of TLS errors. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /certificate/,
    'it must match this name, be currently valid, and come from a certificate authority known to Node.js (add one with `NODE_EXTRA_CA_CERTS=FILE`)',
  ],
  [/wrong version number|packet length too long/, 'the server there does not speak TLS'],
];

/** Statuses of a proxy that cannot reach its engine; a 503 of the engine itself is signed. */
const OF_PROXIES: ReadonlySet<number> = new Set([502, 503, 504]);

interface Session {
  readonly id: string;
  count: number;
}

/** Head of the answer to a signed request, with that request. */
interface Answered {
  readonly answer: IncomingMessage;
  readonly asked: Asked;
}

/**
 * Signed requests to one engine. They have no time limits except their signals: a request may wait in the
 * engine's queue for as long as needed. Throws an {@link EngineFault}; the remote back end's error
 * (`BackendFailure`, `RequestError`); a `StoreError` if that machine cannot read an adapter; or the signal's
 * reason.
 */
export class EngineLine {
  readonly name: string;
  readonly #secret: EngineSecret;
  readonly #connections: HttpConnections;
  /** Null before the hello, and after the engine has forgotten the session. */
  #session: Promise<Session> | null = null;

  /** @param url an origin; request paths are below it */
  constructor(url: string, secret: EngineSecret) {
    this.name = nameOfEngine(url);
    this.#secret = secret;
    this.#connections = new HttpConnections({
      url: this.name,
      name: this.name,
      connectMs: CONNECT_MS,
      idleMs: IDLE_MS,
      maxIdle: MAX_IDLE_CONNECTIONS,
      includesTls: true,
      fail: (kind, message) => new EngineFault(kind, message),
      failUnconnected: (error) => this.#unreachable(error),
    });
  }

  close(): void {
    this.#connections.close();
  }

  async call<Answer>(path: EnginePath, body: object, signal: AbortSignal): Promise<Answer> {
    try {
      return JSON.parse(await this.#readText(await this.#ask(path, JSON.stringify(body), signal))) as Answer;
    } catch (error) {
      signal.throwIfAborted();
      throw this.#faultOf(error);
    }
  }

  /** Events of one sampling request; leaving the loop ends it there. @param text from `generateText` */
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
      // Ignores errors after the end.
      if (isEnded) return;
      signal.throwIfAborted();
      throw this.#faultOf(error);
    } finally {
      // Closing the connection ends the request. After its last event the connection is reused instead, even
      // if the reader left with that event.
      if (!isEnded) answer?.destroy();
      else answer?.resume();
    }
  }

  /** Head of an answer with status 200. If the engine has forgotten the session, starts a new one, once. */
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

  /** Shared by all waiting requests, so it has no signal: one request's abort must not end it for others. */
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
      const text = await readAnswerText(answer, MAX_HELLO_BYTES);
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

  #send(
    path: EnginePath,
    body: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    return this.#connections.send({ method: 'POST', path, body, headers, signal });
  }

  /** The engine received nothing of the request. */
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

  /** Text of an answer with a status other than 200. @throws {EngineFault} if it is not the engine's */
  async #readRefusal(answered: Answered): Promise<string> {
    try {
      return await this.#readText(answered);
    } catch (error) {
      const status = answered.answer.statusCode ?? 0;
      throw OF_PROXIES.has(status) ? this.#notThere(status) : error;
    }
  }

  /** The engine may have been reachable, and have received the request. */
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

  async #readText(answered: Answered): Promise<string> {
    let found: string | null = null;
    try {
      for await (const text of this.#framesOf(answered)) {
        if (found === null) expectEnd(answered.answer);
        found ??= text;
      }
    } catch (error) {
      answered.answer.destroy();
      // Ignores errors after the end.
      if (found === null) throw error;
    }
    if (found === null) throw new EngineFault('lost', `${this.name} broke off a response`);
    return found;
  }

  /** A reader that stops must destroy the answer or resume it. */
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
    // Our own errors have codes too, which are not system codes.
    const isOurs = error instanceof EngineFault || error instanceof StoreError;
    if (!(error instanceof Error) || isOurs || 'param' in error) return error as Error;
    return new EngineFault('lost', `${this.name} broke off (${code ?? error.message})`, { cause: error });
  }
}

/** Closes the connection if the end does not follow the last text soon. */
function expectEnd(answer: IncomingMessage): void {
  const timer = setTimeout(() => answer.destroy(), END_MS).unref();
  answer.once('close', () => clearTimeout(timer));
}

/** Makes foreign text safe for a log line. */
function shown(text: unknown): string {
  return JSON.stringify(String(text).slice(0, 200));
}
