import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { InferenceBackend, ModelInference } from '../../seams/contract/backends.ts';
import type { Log, LogFields } from '../../seams/logging/log.ts';
import { originBelow, startEngineSpan, recordEngineFault } from '../../seams/tracing/engine-span.ts';
import { readTraceParent } from '../../seams/tracing/trace-parent.ts';
import type { Tracing } from '../../seams/tracing/tracing.ts';
import { listenFault } from '../../seams/network/listen.ts';
import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';
import { type EngineSecret } from '../wire/engine-secret.ts';
import { ENGINE_PROTOCOL } from '../wire/engine-protocol.ts';
import {
  ENGINE_PATHS,
  type EngineState,
  type HelloAnswer,
  PROTOCOL_HEADER,
  type PublishAnswer,
  type PublishCall,
  type RetireCall,
  SIGNATURE_HEADER,
  STATUS,
  type TokenizeCall,
  type TokensCall,
} from '../wire/engine-wire.ts';
import { type Asked, FrameWriter } from '../wire/frames.ts';
import { nameOfEngine, proofOf, readHello, readSignature } from '../wire/signature.ts';
import { toWireFault } from '../wire/wire-fault.ts';
import { readGenerate, recordOf } from '../wire/wire-request.ts';
import type { AdapterFiles } from './adapter-files.ts';
import { drainAfter } from '../../seams/faults/early-answers.ts';
import { EventWriter } from './event-writer.ts';
import { readBody, Refusal } from './read-body.ts';
import { Sessions } from './sessions.ts';
import { Strangers } from './strangers.ts';

/** Faults of this machine's files, reported in its log. */
const UNREADABLE: ReadonlySet<string> = new Set(['engine.adapter_unreadable', 'engine.adapter_damaged']);

/** A head comes at once, a body within a minute; slower clients only hold connections. */
const HEAD_MS = 10_000;
const BODY_MS = 60_000;
/** Interval of that check. Node's default is half a minute. */
const CHECK_MS = 1_000;
/** Longer than callers keep an idle connection, so that no request meets its end. */
const KEEP_ALIVE_MS = 65_000;
const DRAIN_POLL_MS = 25;

export interface EnginePortOptions {
  readonly inference: InferenceBackend;
  readonly adapters: Pick<AdapterFiles, 'find' | 'locate' | 'retire'>;
  readonly secret: EngineSecret;
  readonly host: string;
  /** 0 = any free port */
  readonly port: number;
  /** address for others; null: derived from the listen address */
  readonly url: string | null;
  /** time limit for a request's head, ms, default 10 s */
  readonly headMs?: number;
  /** Called for each new connection. Default: none. */
  readonly sawConnection?: () => void;
  /** Creates a span for each sampling request. Default null: no tracing. */
  readonly tracing?: Tracing | null;
  readonly log: Log;
}

type Answer = (body: unknown, signal: AbortSignal, response: ServerResponse) => Promise<object | null>;

/**
 * Port to the samplers of this process, for API processes on other machines; see `engine-wire.ts` for the
 * protocol. Without the secret every request gets 401. A stream lasts as long as its connection: closing it
 * ends the request.
 */
export class EnginePort {
  readonly #options: EnginePortOptions;
  readonly #server: Server;
  readonly #sessions = new Sessions();
  readonly #strangers = new Strangers();
  /** Requests for which answers are signed. */
  readonly #asked = new WeakMap<ServerResponse, Asked>();
  readonly #answers: ReadonlyMap<string, Answer>;
  readonly #about = new WeakMap<ServerResponse, LogFields>();
  #numStreams = 0;
  #isDraining = false;

  /** Listens. @throws {ServerError} `server.port_in_use`, `server.config_invalid` */
  static async listen(options: EnginePortOptions): Promise<EnginePort> {
    const port = new EnginePort(options);
    await port.#listen();
    return port;
  }

  private constructor(options: EnginePortOptions) {
    this.#options = options;
    this.#answers = new Map<string, Answer>([
      [ENGINE_PATHS.state, async () => await this.#state()],
      [ENGINE_PATHS.generate, (body, signal, response) => this.#generate(body, signal, response)],
      [ENGINE_PATHS.tokenize, (body, signal) => this.#tokenize(body as TokenizeCall, signal)],
      [
        ENGINE_PATHS.detokenize,
        async (body, signal) => {
          const { model, tokenIds } = body as TokensCall;
          return { text: await this.#of(model).detokenize(tokenIds, { signal }) };
        },
      ],
      [
        ENGINE_PATHS.tokenTexts,
        async (body, signal) => {
          const { model, tokenIds } = body as TokensCall;
          return { texts: await this.#of(model).tokenTexts(tokenIds, { signal }) };
        },
      ],
      [ENGINE_PATHS.publish, (body, signal) => this.#publish(body as PublishCall, signal)],
      [
        ENGINE_PATHS.retire,
        async (body) => {
          const { digest } = body as RetireCall;
          options.inference.retire(digest);
          options.adapters.retire(digest);
          return {};
        },
      ],
    ]);
    // An import would load undici too (docs/traps.md).
    this.#server = process.getBuiltinModule('node:http').createServer(
      {
        headersTimeout: options.headMs ?? HEAD_MS,
        requestTimeout: BODY_MS,
        keepAliveTimeout: KEEP_ALIVE_MS,
        connectionsCheckingInterval: CHECK_MS,
      },
      (request, response) => void this.#onRequest(request, response),
    );
    this.#server.on('connection', (socket) => {
      this.#strangers.add(socket);
      options.sawConnection?.();
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Address for others, which is the engine's name in hellos. */
  get url(): string {
    const { host, url } = this.#options;
    return nameOfEngine(url ?? `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`);
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Takes no new sampling requests, and waits up to `timeoutMs` for current ones. */
  async drain(timeoutMs: number): Promise<void> {
    this.#isDraining = true;
    const deadline = performance.now() + timeoutMs;
    while (this.#numStreams > 0 && performance.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
  }

  async close(): Promise<void> {
    this.#isDraining = true;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #listen(): Promise<void> {
    const { host, port } = this.#options;
    const listening = Promise.withResolvers<void>();
    this.#server.once('error', listening.reject);
    // Rollouts open thousands of connections in bursts.
    this.#server.listen({ host, port, backlog: 65_535 }, listening.resolve);
    try {
      await listening.promise;
    } catch (error) {
      throw listenFault(error as NodeJS.ErrnoException, { host, port });
    }
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A broken connection counts as an end.
    response.on('error', () => undefined);
    const left = new AbortController();
    response.once('close', () => left.abort(new Error('the connection was closed')));
    try {
      const answer = await this.#answer(request, response, left.signal);
      if (answer !== null) this.#send(response, 200, answer);
    } catch (error) {
      this.#refuse(response, error, left.signal);
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<object | null> {
    const { secret } = this.#options;
    const path = request.url ?? '';
    const header = request.headers[SIGNATURE_HEADER];
    if (typeof header !== 'string') throw new Refusal(STATUS.unauthorised, 'no signature');
    if (path === ENGINE_PATHS.hello) {
      // A hello may be a replay by an eavesdropper, so its connection is not kept.
      response.setHeader('connection', 'close');
      return this.#hello(readHello(secret, this.url, header), request.headers[PROTOCOL_HEADER]);
    }
    const signature = readSignature(secret, path, header);
    if (signature === null) throw new Refusal(STATUS.unauthorised, 'no signature of this secret');
    this.#asked.set(response, signature);
    if (!this.#sessions.use(signature)) throw new Refusal(STATUS.unknownSession, 'the session is unknown');
    this.#strangers.remove(request.socket);
    const body = recordOf(await readBody(request, signature.digest), 'the body');
    const answer = this.#answers.get(path);
    if (answer === undefined) throw new Refusal(STATUS.unknownPath, 'there is no such path');
    return await answer(body, signal, response);
  }

  #hello(random: string | null, protocol: string | string[] | undefined): HelloAnswer {
    if (random === null) throw new Refusal(STATUS.unauthorised, 'no signature of this secret');
    if (protocol !== ENGINE_PROTOCOL) throw new Refusal(STATUS.otherProtocol, 'another protocol');
    const session = this.#sessions.open();
    const proof = proofOf(this.#options.secret, random, session);
    return { protocol: ENGINE_PROTOCOL, version: SERVICE_VERSION, session, proof };
  }

  async #state(): Promise<EngineState> {
    const { inference } = this.#options;
    const problem = await inference.problem();
    const models = inference.models.map((model) => {
      const own = inference.of(model.id);
      const facts = { ...model, tokenizer: own.tokenizerFacts() };
      return { facts, stats: own.stats(), members: own.members?.() ?? [], adapters: own.adapters?.() ?? [] };
    });
    return { version: SERVICE_VERSION, isDraining: this.#isDraining, trouble: problem, models };
  }

  async #generate(body: unknown, signal: AbortSignal, response: ServerResponse): Promise<null> {
    if (this.#isDraining) throw new Refusal(STATUS.draining, 'this engine accepts no new requests');
    const { model, request } = readGenerate(body);
    const { origin, ...plain } = request;
    this.#about.set(response, {
      requestId: origin?.requestId ?? null,
      traceId: readTraceParent(origin?.traceParent ?? null)?.traceId ?? null,
    });
    const inference = this.#of(model);
    const span = startEngineSpan(this.#options.tracing ?? null, model, origin);
    this.#numStreams += 1;
    try {
      const found = await this.#options.adapters.find(plain);
      const asked = origin?.traceParent == null ? found : { ...found, origin: originBelow(span, origin) };
      const events = inference.generate(asked, signal)[Symbol.asyncIterator]();
      try {
        // A refusal before the first event is not a stream.
        let next = await events.next();
        response.writeHead(200, { 'content-type': 'application/x-ndjson' });
        const writer = new EventWriter(response, this.#framesOf(response, 200));
        for (; next.done !== true; next = await events.next()) await writer.push(next.value);
        writer.end();
      } finally {
        await events.return?.();
      }
    } catch (error) {
      if (!signal.aborted) recordEngineFault(span, error);
      throw error;
    } finally {
      span?.end();
      this.#numStreams -= 1;
    }
    return null;
  }

  async #tokenize({ model, input, withTexts }: TokenizeCall, signal: AbortSignal): Promise<object> {
    return await this.#of(model).tokenize(input, { withTexts, signal });
  }

  async #publish({ model, digest, directoryKey }: PublishCall, signal: AbortSignal): Promise<PublishAnswer> {
    if (this.#isDraining) throw new Refusal(STATUS.draining, 'this engine is ending');
    this.#of(model);
    const { inference, adapters } = this.#options;
    const adapter = await adapters.locate({ digest, directoryKey });
    return { partial: (await inference.publish?.(model, adapter, signal)) ?? null };
  }

  #of(model: string): ModelInference {
    const { inference } = this.#options;
    if (inference.models.some(({ id }) => id === model)) return inference.of(model);
    throw new Refusal(STATUS.malformed, `the base model ${model} is not served here`);
  }

  #refuse(response: ServerResponse, error: unknown, signal: AbortSignal): void {
    const about: LogFields = { ...this.#about.get(response), level: 'error' };
    // There is no reader any more, or the answer is already cut off in the middle.
    if (signal.aborted || response.headersSent) {
      if (!signal.aborted) this.#options.log(`a stream of this engine broke: ${describe(error)}`, about);
      response.destroy();
      return;
    }
    if (error instanceof Refusal) return this.#sendRefusal(response, error);
    if (error instanceof TypeError) return this.#sendRefusal(response, new Refusal(STATUS.malformed, error.message));
    const fault = toWireFault(error);
    // Clients get their own faults; this machine's faults go to its log.
    if (fault === null || fault.kind === 'blobs' || UNREADABLE.has(fault.code))
      this.#options.log(`a request to this engine failed: ${describe(error)}`, about);
    if (fault === null) this.#send(response, STATUS.failed, {});
    else this.#send(response, STATUS.refused, fault);
  }

  #sendRefusal(response: ServerResponse, { status, message }: Refusal): void {
    // The connection is not reused; a body in transit is dropped first.
    drainAfter(response);
    response.setHeader('connection', 'close');
    if (status === STATUS.unauthorised) {
      response.writeHead(status, { 'content-length': 0 });
      response.end();
      return;
    }
    const isOther = status === STATUS.otherProtocol;
    this.#send(response, status, isOther ? { protocol: ENGINE_PROTOCOL, version: SERVICE_VERSION } : { message });
  }

  /** In frames for signed requests; the answer to a hello is authenticated by its proof. */
  #send(response: ServerResponse, status: number, body: object): void {
    const json = JSON.stringify(body);
    const text = this.#asked.has(response) ? this.#framesOf(response, status).frame(json) : json;
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
    response.end(text);
  }

  #framesOf(response: ServerResponse, status: number): FrameWriter {
    const asked = this.#asked.get(response);
    if (asked === undefined) throw new Error('only a signed request has an answer in frames');
    return new FrameWriter(this.#options.secret, asked, status);
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
