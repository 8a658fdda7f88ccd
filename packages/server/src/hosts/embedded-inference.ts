import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';

import type { EngineStats } from '@trainyard/backend';
import type { EngineEvent, GenerateRequest, TokenizeInput, TokenizerFacts } from '@trainyard/generation';

import type { BaseModel } from '../contract/base-models.ts';
import type { InferenceBackend, ModelInference, Tokenized } from '../contract/backends.ts';
import type { ComputeShares } from '../computing/compute-arbiter.ts';
import { BackendFailure } from '../faults/backend-failure.ts';
import { ComputingHost } from './computing-host.ts';
import { PendingCodecCalls } from './pending-codec-calls.ts';
import { RoundTrips } from './round-trips.ts';
import type { EngineHostCommand, EngineHostMessage } from './messages.ts';
import type { OpenEngineOptions, ServedModel } from './open-engine.ts';
import type { SupervisedHost } from './supervised-host.ts';

/** A reader this many events behind pauses its sequences, and wakes them when it has caught up: memory per stream stays bounded. */
const PAUSE_ABOVE_EVENTS = 256;
const RESUME_BELOW_EVENTS = 32;
/** How long a new request waits for a host that is being restarted. Loading the default model takes about a second. */
const RESTART_WAIT_MS = 15_000;
const RESTARTING = 'the inference engine is being restarted; try again';

/** How long the engine may take to answer between two steps; the longest step takes about a second. */
const ROUND_TRIP_MS = 3_000;

/**
 * Sampling on llama.cpp in a supervised child process.
 *
 * Requests above the limit are refused here, before anything of them travels. A request whose client has left counts no longer, though the host is still told of it:
 * as many as the limit may be on their way out.
 */
export class EmbeddedInference implements InferenceBackend, ModelInference {
  readonly #host: SupervisedHost<EngineHostCommand, EngineHostMessage>;
  readonly #streams = new Map<string, EventStream>();
  /** Requests that have left, of which the host has not said that they ended. */
  readonly #leaving = new Set<string>();
  readonly #maxRequests: number;
  readonly #roundTrips = new RoundTrips(ROUND_TRIP_MS);
  readonly #codecCalls = new PendingCodecCalls();
  readonly #modelId: string;
  #served: ServedModel | null = null;
  #stats: EngineStats | null = null;

  constructor(options: {
    modelId: string;
    host: OpenEngineOptions;
    arbiter: ComputeShares;
    share: number;
    log: (line: string) => void;
  }) {
    this.#modelId = options.modelId;
    this.#maxRequests = options.host.maxRequests;
    this.#host = new ComputingHost<EngineHostCommand, EngineHostMessage>({
      name: 'engine',
      modulePath: fileURLToPath(new URL('./engine-host.ts', import.meta.url)),
      options: options.host,
      onMessage: (message) => this.#onMessage(message),
      onLost: (reason) => this.#onLost(reason),
      log: options.log,
      arbiter: options.arbiter,
      share: options.share,
    }).host;
  }

  /** @throws {ServerError} `server.host_failed_to_start`, with the reason the host gave (a missing or corrupt model file) */
  async start(): Promise<void> {
    await this.#host.start();
  }

  async close(): Promise<void> {
    await this.#host.close();
  }

  /** Asks the engine itself. @returns why it cannot be relied on now, or null */
  async trouble(): Promise<string | null> {
    if (this.#host.trouble !== null) return this.#host.trouble;
    const took = await this.#roundTrips.measure(() => this.#host.send({ kind: 'ping' }));
    return took === null ? `the inference engine did not answer within ${ROUND_TRIP_MS} ms` : null;
  }

  checkRoom(): void {
    const refusal = this.#overload();
    if (refusal !== null) throw new BackendFailure('engine.overloaded', refusal, null);
  }

  /** Requests above the limit wait for nothing: they are told at once. */
  #overload(): string | null {
    const count = this.#streams.size;
    if (count >= this.#maxRequests)
      return `at most ${this.#maxRequests} requests may be in flight, and there are ${count}: try again later`;
    return this.#leaving.size < this.#maxRequests
      ? null
      : `${this.#leaving.size} requests that were given up are still being ended: try again later`;
  }

  get models(): readonly BaseModel[] {
    const { contextLength, vocabSize } = this.servedModel;
    return [{ id: this.#modelId, contextLength, vocabSize }];
  }

  of(): this {
    return this;
  }

  tokenizerFacts(): TokenizerFacts {
    return this.servedModel.tokenizer;
  }

  /** The model that the host loaded; known once `start` resolved, and the same after a restart. */
  get servedModel(): ServedModel {
    if (this.#served === null) throw new Error('the engine host has not started yet');
    return this.#served;
  }

  stats(): EngineStats | null {
    return this.#stats;
  }

  /** Every stream ends in exactly one `completed` or `failed` event; leaving the loop early aborts the request. */
  async *generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    // Ids that clients choose may collide; inside, each request has its own.
    const requestId = randomUUID();
    try {
      await this.#host.whenReady(RESTART_WAIT_MS, signal);
    } catch {
      yield failed('engine.host_lost', RESTARTING);
      return;
    }
    const refusal = this.#overload();
    if (refusal !== null) {
      yield failed('engine.overloaded', refusal);
      return;
    }
    const stream = new EventStream((isPaused) => this.#host.send({ kind: 'pause', requestId, isPaused }));
    const leave = () => {
      if (!this.#streams.delete(requestId) || stream.isEnded) return;
      stream.push(failed('engine.aborted', 'the request was given up'));
      if (this.#host.send({ kind: 'abort', requestId })) this.#leaving.add(requestId);
    };
    if (signal.aborted || !this.#host.send({ kind: 'generate', request: { ...request, requestId } })) {
      const code = signal.aborted ? 'engine.aborted' : 'engine.host_lost';
      yield failed(code, 'the request did not reach the inference engine');
      return;
    }
    this.#streams.set(requestId, stream);
    signal.addEventListener('abort', leave, { once: true });
    try {
      for (;;) {
        const event = await stream.next();
        yield event;
        if (event.kind === 'completed' || event.kind === 'failed') return;
      }
    } finally {
      signal.removeEventListener('abort', leave);
      leave();
    }
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
      case 'codec-failed':
        this.#codecCalls.settle(message);
        break;
      case 'ready':
        this.#served = message.model;
        break;
      case 'engine-events':
        this.#stats = message.stats;
        // A stream that is gone was aborted; its last events have no reader.
        for (const [requestId, event] of message.events) this.#receive(requestId, event);
        break;
      case 'pong':
        this.#stats = message.stats;
        this.#roundTrips.settle();
        break;
      case 'fatal':
        break; // the exit that follows carries the reason
      default:
        message satisfies never;
    }
  }

  #receive(requestId: string, event: EngineEvent): void {
    this.#streams.get(requestId)?.push(event);
    if (event.kind === 'completed' || event.kind === 'failed') this.#leaving.delete(requestId);
  }

  #onLost(reason: string): void {
    this.#leaving.clear();
    this.#roundTrips.settle();
    this.#codecCalls.failAll(`the inference engine stopped while this request ran (${reason}); try again`);
    for (const stream of this.#streams.values()) {
      if (!stream.isEnded)
        stream.push(
          failed('engine.host_lost', `the inference engine stopped while this request ran (${reason}); try again`),
        );
    }
  }
}

function failed(code: 'engine.host_lost' | 'engine.aborted' | 'engine.overloaded', message: string): EngineEvent {
  return { kind: 'failed', code, message, param: null };
}

/** Events between the host's messages and one reader. */
class EventStream {
  isEnded = false;
  #events: EngineEvent[] = [];
  #firstIndex = 0;
  #waiter: ((event: EngineEvent) => void) | null = null;
  #isPaused = false;
  readonly #setPaused: (isPaused: boolean) => void;

  constructor(setPaused: (isPaused: boolean) => void) {
    this.#setPaused = setPaused;
  }

  push(event: EngineEvent): void {
    if (this.isEnded) return;
    this.isEnded = event.kind === 'completed' || event.kind === 'failed';
    if (this.#waiter !== null) {
      const resolve = this.#waiter;
      this.#waiter = null;
      resolve(event);
      return;
    }
    this.#events.push(event);
    if (!this.#isPaused && this.#length > PAUSE_ABOVE_EVENTS) this.#pause(true);
  }

  next(): Promise<EngineEvent> {
    const event = this.#events[this.#firstIndex];
    if (event === undefined) return new Promise((resolve) => (this.#waiter = resolve));
    this.#firstIndex += 1;
    if (this.#firstIndex === this.#events.length) {
      this.#events = [];
      this.#firstIndex = 0;
    }
    if (this.#isPaused && this.#length < RESUME_BELOW_EVENTS) this.#pause(false);
    return Promise.resolve(event);
  }

  get #length(): number {
    return this.#events.length - this.#firstIndex;
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#setPaused(isPaused);
  }
}
