import { fileURLToPath } from 'node:url';

import type { AdapterRef, BackendMember, EngineStats, LoadedVersion } from '@trainyard/backend';
import type { EngineEvent, TokenizeInput, TokenizerFacts } from '@trainyard/generation';

import { withAdapterFile } from '../../seams/contract/adapter-file.ts';
import { identitiesOf } from '../../seams/contract/adapter-identity.ts';
import { readRequestEvents } from '../../seams/contract/event-texts.ts';
import { requestText } from '../../seams/contract/request-texts.ts';
import type { InferenceRequest, Tokenized } from '../../seams/contract/backends.ts';
import type { ComputeShares } from '../computing/compute-arbiter.ts';
import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import { ComputingHost } from '../process/computing-host.ts';
import { PendingCodecCalls } from '../process/pending-codec-calls.ts';
import { EventStream, HostGeneration, UnreadOutput, type UnreadTokens } from './event-stream.ts';
import type { ModelHost } from './inference-pool.ts';
import type { RequestCapacity } from './request-capacity.ts';
import { RoundTrips } from '../process/round-trips.ts';
import type { EngineHostCommand, EngineHostMessage } from '../process/messages.ts';
import type { OpenEngineOptions } from '../inference/open-engine.ts';
import type { TextHostOptions } from '../inference/open-guest.ts';
import type { ServedModel } from '../process/opened-text.ts';
import type { SupervisedHost } from '../process/supervised-host.ts';

export type InferenceHostOptions = OpenEngineOptions | TextHostOptions;

function hostModule(options: InferenceHostOptions): string {
  return fileURLToPath(
    new URL('driver' in options ? '../inference/text-host.ts' : '../inference/engine-host.ts', import.meta.url),
  );
}

/**
 * Maximum wait of a new request for a host that is restarting. Loading the default model takes about a
 * second.
 */
const RESTART_WAIT_MS = 15_000;
const RESTARTING = 'the inference engine is restarting; retry';

/** Time limit for the engine's answer between two steps; the longest step takes about a second. */
const ROUND_TRIP_MS = 3_000;

/**
 * Samples from one base model in a supervised child process: with llama.cpp, or over the back end in the
 * host's options. Requests above the limit are refused here, before anything is sent.
 */
export class EmbeddedInference implements ModelHost {
  readonly #host: SupervisedHost<EngineHostCommand, EngineHostMessage>;
  readonly #streams = new Map<string, EventStream>();
  readonly #leaving = new Set<string>();
  readonly #capacity: RequestCapacity;
  readonly #unread = new UnreadOutput();
  readonly #onIdle: () => void;
  #numGenerating = 0;
  #numOpened = 0;
  readonly #roundTrips = new RoundTrips(ROUND_TRIP_MS);
  readonly #codecCalls = new PendingCodecCalls();
  #served: ServedModel | null = null;
  /** Unparsed until read, because most are never read. */
  #stats: EngineStats | string | null = null;
  #problem: string | null = null;
  #members: readonly BackendMember[] = [];
  #adapters: readonly LoadedVersion[] = [];
  readonly #log: (line: string) => void;

  constructor(options: {
    name: string;
    /** With a `driver`, text runs over that back end, in a host without an engine. */
    host: InferenceHostOptions;
    secrets?: Readonly<Record<string, string>>;
    /** Default: the module for the options. */
    modulePath?: string;
    /** counts the requests of all models */
    capacity: RequestCapacity;
    onIdle: () => void;
    arbiter: ComputeShares;
    share: number;
    /** Default 0. */
    niceness?: number;
    log: (line: string) => void;
  }) {
    this.#capacity = options.capacity;
    this.#onIdle = options.onIdle;
    this.#log = options.log;
    this.#host = new ComputingHost<EngineHostCommand, EngineHostMessage>({
      name: options.name,
      modulePath: options.modulePath ?? hostModule(options.host),
      options: options.host,
      // A host over remote servers does not fail because of the file.
      ...('driver' in options.host ? {} : { file: options.host.modelPath }),
      secrets: options.secrets ?? {},
      onMessage: (message) => this.#onMessage(message),
      onLost: (reason) => this.#onLost(reason),
      log: options.log,
      arbiter: options.arbiter,
      share: options.share,
      niceness: options.niceness ?? 0,
    }).host;
  }

  /**
   * @throws {ServerError} `server.host_failed_to_start`, with the host's reason (a missing or corrupt model
   * file)
   */
  async start(): Promise<void> {
    await this.#host.start();
  }

  async close(): Promise<void> {
    await this.#host.close();
  }

  /** Pings the engine itself. @returns the reason why it is unreliable now, or null */
  async problem(): Promise<string | null> {
    if (this.#host.problem !== null) return this.#host.problem;
    const took = await this.#roundTrips.measure(() => this.#host.send({ kind: 'ping' }));
    return took === null ? `the inference engine did not respond within ${ROUND_TRIP_MS} ms` : this.#problem;
  }

  get isIdle(): boolean {
    return this.#numGenerating === 0;
  }

  tokenizerFacts(): TokenizerFacts {
    return this.servedModel.tokenizer;
  }

  /** Model that the host loaded; known once `start` resolved, and the same after a restart. */
  get servedModel(): ServedModel {
    if (this.#served === null) throw new Error('the engine host has not started yet');
    return this.#served;
  }

  stats(): EngineStats | null {
    if (typeof this.#stats === 'string') this.#stats = JSON.parse(this.#stats) as EngineStats;
    return this.#stats;
  }

  /** As of the last health check. */
  members(): readonly BackendMember[] {
    return this.#members;
  }

  /** As of the last health check. */
  adapters(): readonly LoadedVersion[] {
    return this.#adapters;
  }

  /**
   * Every stream ends in exactly one `completed` or `failed` event; leaving the loop early aborts the
   * request.
   */
  generate(request: InferenceRequest, signal: AbortSignal): AsyncIterableIterator<EngineEvent, UnreadTokens> {
    return new HostGeneration({
      begin: () => {
        this.#numGenerating += 1;
        return this.#open(request, signal);
      },
      onEnd: () => {
        this.#numGenerating -= 1;
        if (this.#numGenerating === 0) this.#onIdle();
      },
    });
  }

  /** Sends the request to the host. @returns the failure as the only event, if it could not be sent */
  async #open(request: InferenceRequest, signal: AbortSignal): Promise<EventStream | EngineEvent> {
    // Client-chosen ids may collide, so each request has an internal one.
    this.#numOpened += 1;
    const requestId = String(this.#numOpened);
    try {
      await this.#host.whenReady(RESTART_WAIT_MS, signal);
    } catch {
      return failed('engine.host_lost', RESTARTING);
    }
    const { refusal } = this.#capacity;
    if (refusal !== null) return failed('engine.overloaded', refusal);
    const leave = () => {
      signal.removeEventListener('abort', leave);
      this.#leave(requestId, events);
    };
    const events = new EventStream({
      unread: this.#unread,
      setPaused: (isPaused) => {
        this.#capacity.numPaused += isPaused ? 1 : -1;
        this.#host.send({ kind: 'pause', requestId, isPaused });
      },
      leave,
    });
    const text = requestText({ ...withAdapterFile(request), requestId });
    if (signal.aborted || !this.#host.send({ kind: 'generate', request: text })) {
      events.close();
      const code = signal.aborted ? 'engine.aborted' : 'engine.host_lost';
      return failed(code, 'the request did not reach the inference engine');
    }
    this.#streams.set(requestId, events);
    this.#capacity.numInFlight += 1;
    signal.addEventListener('abort', leave, { once: true });
    return events;
  }

  #leave(requestId: string, events: EventStream): void {
    if (!this.#streams.delete(requestId)) return;
    this.#capacity.numInFlight -= 1;
    if (events.isPaused) this.#capacity.numPaused -= 1;
    events.isPaused = false;
    if (events.isEnded) return;
    events.push(failed('engine.aborted', 'the request was cancelled'));
    if (!this.#host.send({ kind: 'abort', requestId })) return;
    this.#leaving.add(requestId);
    this.#capacity.numLeaving += 1;
  }

  async tokenize(input: TokenizeInput, options: { withTexts: boolean; signal: AbortSignal }): Promise<Tokenized> {
    await this.#whenReady(options.signal);
    const { withTexts } = options;
    const reply = await this.#codecCalls.run(
      (requestId) => this.#host.send({ kind: 'tokenize', requestId, input, withTexts }),
      'tokenized',
    );
    return { tokenIds: reply.tokenIds, texts: reply.texts };
  }

  async detokenize(tokenIds: readonly number[], options: { signal: AbortSignal }): Promise<string> {
    await this.#whenReady(options.signal);
    const reply = await this.#codecCalls.run(
      (requestId) => this.#host.send({ kind: 'detokenize', requestId, tokenIds }),
      'detokenized',
    );
    return reply.text;
  }

  async tokenTexts(tokenIds: readonly number[], options: { signal: AbortSignal }): Promise<string[]> {
    await this.#whenReady(options.signal);
    const reply = await this.#codecCalls.run(
      (requestId) => this.#host.send({ kind: 'token-texts', requestId, tokenIds }),
      'token-texts',
    );
    return reply.texts;
  }

  async publish(adapter: AdapterRef, signal: AbortSignal): Promise<string | null> {
    await this.#whenReady(signal);
    const { partial } = await this.#codecCalls.run(
      (requestId) => this.#host.send({ kind: 'publish', requestId, adapter }),
      'published',
    );
    return partial;
  }

  /** A host that is starting has no adapters. */
  retire(digest: string): void {
    for (const identity of identitiesOf(digest)) this.#host.send({ kind: 'retire', digest: identity });
  }

  async #whenReady(signal: AbortSignal): Promise<void> {
    try {
      await this.#host.whenReady(RESTART_WAIT_MS, signal);
    } catch {
      throw new BackendFailure('engine.host_lost', RESTARTING, null);
    }
  }

  #onMessage(message: EngineHostMessage): void {
    switch (message.kind) {
      case 'tokenized':
      case 'detokenized':
      case 'token-texts':
      case 'published':
      case 'codec-failed':
        this.#codecCalls.settle(message);
        break;
      case 'ready':
        this.#served = message.model;
        for (const warning of message.model.warnings ?? []) this.#log(`warning: ${message.model.path}: ${warning}`);
        break;
      case 'engine-events':
        this.#stats = message.stats;
        // An aborted request may still get events; they have no reader.
        for (const [requestId, event] of readRequestEvents(message.events)) this.#receive(requestId, event);
        break;
      case 'pong':
        this.#stats = message.stats;
        this.#problem = message.problem;
        this.#members = message.members;
        this.#adapters = message.adapters;
        this.#roundTrips.settle();
        break;
      case 'log':
        this.#log(message.line);
        break;
      case 'fatal':
        break; // the exit that follows has the reason
      default:
        message satisfies never;
    }
  }

  #receive(requestId: string, event: EngineEvent): void {
    this.#streams.get(requestId)?.push(event);
    if ((event.kind === 'completed' || event.kind === 'failed') && this.#leaving.delete(requestId))
      this.#capacity.numLeaving -= 1;
  }

  #onLost(reason: string): void {
    this.#adapters = [];
    this.#capacity.numLeaving -= this.#leaving.size;
    this.#leaving.clear();
    this.#roundTrips.settle();
    this.#codecCalls.failAll(`the inference engine stopped while this request ran (${reason}); retry`);
    for (const stream of this.#streams.values()) {
      if (!stream.isEnded)
        stream.push(
          failed('engine.host_lost', `the inference engine stopped while this request ran (${reason}); retry`),
        );
    }
  }
}

function failed(code: 'engine.host_lost' | 'engine.aborted' | 'engine.overloaded', message: string): EngineEvent {
  return { kind: 'failed', code, message, param: null };
}
