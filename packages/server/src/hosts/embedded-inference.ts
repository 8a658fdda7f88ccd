import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';

import type {
  EngineEvent,
  EngineStats,
  GenerateRequest,
  OpenEngineOptions,
  ServedModel,
  TokenizeInput,
} from '@trainyard/engine';

import type { InferenceBackend, Tokenized } from '../backends.ts';
import type { ComputeArbiter } from '../compute-arbiter.ts';
import { BackendFailure } from '../http-faults.ts';
import { ComputingHost } from './computing-host.ts';
import { PendingCodecCalls } from './pending-codec-calls.ts';
import type { EngineHostCommand, EngineHostMessage } from './messages.ts';
import type { SupervisedHost } from './supervised-host.ts';

/** A reader this many events behind pauses its sequences, and wakes them when it has caught up: memory per stream stays bounded. */
const PAUSE_ABOVE_EVENTS = 256;
const RESUME_BELOW_EVENTS = 32;
/** How long a new request waits for a host that is being restarted. Loading the default model takes about a second. */
const RESTART_WAIT_MS = 15_000;
const RESTARTING = 'the inference engine is being restarted; try again';

/** Sampling on llama.cpp in a supervised child process. */
export class EmbeddedInference implements InferenceBackend {
  readonly #host: SupervisedHost<EngineHostCommand, EngineHostMessage>;
  readonly #streams = new Map<string, EventStream>();
  readonly #codecCalls = new PendingCodecCalls();
  readonly #modelId: string;
  #served: ServedModel | null = null;
  #stats: EngineStats | null = null;

  constructor(options: {
    modelId: string;
    host: OpenEngineOptions;
    arbiter: ComputeArbiter;
    share: number;
    log: (line: string) => void;
  }) {
    this.#modelId = options.modelId;
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

  isHealthy(): boolean {
    return this.#host.isReady;
  }

  get baseModel(): { id: string; contextLength: number; vocabSize: number } {
    const { contextLength, vocabSize } = this.servedModel;
    return { id: this.#modelId, contextLength, vocabSize };
  }

  /** What the host loaded; known once `start` resolved, and the same after a restart. */
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
    const stream = new EventStream((isPaused) => this.#host.send({ kind: 'pause', requestId, isPaused }));
    this.#streams.set(requestId, stream);
    const abort = () => this.#host.send({ kind: 'abort', requestId });
    signal.addEventListener('abort', abort, { once: true });
    try {
      if (signal.aborted || !this.#host.send({ kind: 'generate', request: { ...request, requestId } })) {
        yield failed(
          signal.aborted ? 'engine.aborted' : 'engine.host_lost',
          'the request did not reach the inference engine',
        );
        stream.isEnded = true;
        return;
      }
      for (;;) {
        const event = await stream.next();
        yield event;
        if (event.kind === 'completed' || event.kind === 'failed') return;
      }
    } finally {
      signal.removeEventListener('abort', abort);
      this.#streams.delete(requestId);
      if (!stream.isEnded) abort();
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
        for (const [requestId, event] of message.events) this.#streams.get(requestId)?.push(event);
        break;
      case 'fatal':
        break; // the exit that follows carries the reason
      default:
        message satisfies never;
    }
  }

  #onLost(reason: string): void {
    this.#codecCalls.failAll(`the inference engine stopped while this request ran (${reason}); try again`);
    for (const stream of this.#streams.values()) {
      if (!stream.isEnded)
        stream.push(
          failed('engine.host_lost', `the inference engine stopped while this request ran (${reason}); try again`),
        );
    }
  }
}

function failed(code: 'engine.host_lost' | 'engine.aborted', message: string): EngineEvent {
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
