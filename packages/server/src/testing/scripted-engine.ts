import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { EngineError, type EngineStats } from '@trainyard/backend';
import { type EngineEvent, type TokenizeInput, type TokenizerFacts } from '@trainyard/generation';
import { openScriptedEngine, type ScriptedEngine, type ScriptedEngineOptions } from '@trainyard/generation/testing';

import type {
  InferenceBackend,
  InferenceRequest,
  ModelInference,
  ServedAdapter,
  Tokenized,
} from '../seams/contract/backends.ts';
import { withAdapterFile } from '../seams/contract/adapter-file.ts';
import { toBackendFailure } from '../seams/faults/backend-failure.ts';
import { GUEST } from './guest-refusal.ts';

/**
 * The real engine in this process, over a scripted model: everything between HTTP and logits is real.
 *
 * ```ts
 * const inference = await ScriptedEngineInference.open({ template: 'tools' });
 * inference.model.setReply('Hello');
 * const server = await TestServer.startOn(inference);
 * ```
 */
export class ScriptedEngineInference implements InferenceBackend, ModelInference {
  readonly models: InferenceBackend['models'];
  readonly requests: InferenceRequest[] = [];
  readonly model: ScriptedEngine;
  #isStepping = false;

  private constructor(model: ScriptedEngine) {
    this.model = model;
    const { contextLength, vocabSize } = model.model;
    this.models = [{ id: 'tiny/base', contextLength, vocabSize }];
    model.engine.onWork = () => this.#wake();
  }

  static async open(options: ScriptedEngineOptions = {}): Promise<ScriptedEngineInference> {
    return new ScriptedEngineInference(await openScriptedEngine({ guest: GUEST, ...options }));
  }

  of(): this {
    return this;
  }

  async *generate(request: InferenceRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    this.requests.push(request);
    const { engine } = this.model;
    const requestId = randomUUID();
    const events: EngineEvent[] = [];
    let arrived = Promise.withResolvers<void>();
    const abort = () => {
      engine.abort(requestId);
      this.#wake();
    };
    signal.addEventListener('abort', abort, { once: true });
    this.model.submit({ ...withAdapterFile(request), requestId }, (event) => {
      events.push(event);
      arrived.resolve();
    });
    this.#wake();
    try {
      for (;;) {
        await arrived.promise;
        arrived = Promise.withResolvers<void>();
        for (const event of events.splice(0)) {
          yield event;
          if (event.kind === 'completed' || event.kind === 'failed') return;
        }
      }
    } finally {
      signal.removeEventListener('abort', abort);
      abort();
    }
  }

  async tokenize(input: TokenizeInput, options: { withTexts: boolean; signal: AbortSignal }): Promise<Tokenized> {
    const { codec } = this.model;
    const tokenIds = await asBackendCall(() => codec.tokenize(input, options.signal));
    return { tokenIds, texts: options.withTexts ? codec.tokenTexts(tokenIds) : null };
  }

  async detokenize(tokenIds: readonly number[]): Promise<string> {
    return asBackendCall(() => this.model.codec.detokenize(tokenIds));
  }

  async tokenTexts(tokenIds: readonly number[]): Promise<string[]> {
    return asBackendCall(() => this.model.codec.tokenTexts(tokenIds));
  }

  async publish(_id: string, { digest, path }: ServedAdapter): Promise<string | null> {
    if (path === null) throw new Error(`the file of the adapter ${digest} was not looked for`);
    return await this.model.engine.publish({ digest, path });
  }

  retire(digest: string): void {
    this.model.engine.retire(digest);
  }

  checkCapacity(): void {}
  tokenizerFacts(): TokenizerFacts {
    return this.model.model.tokenizer;
  }

  problem(): null {
    return null;
  }

  stats(): EngineStats {
    return this.model.engine.stats();
  }

  get lastRequest(): InferenceRequest {
    const request = this.requests.at(-1);
    if (!request) throw new Error('no request has arrived');
    return request;
  }

  close(): void {
    this.model.close();
  }

  #wake(): void {
    if (!this.#isStepping) void this.#stepWhileThereIsWork();
  }

  /** One step per turn of the event loop, like the engine host. */
  async #stepWhileThereIsWork(): Promise<void> {
    const { engine } = this.model;
    this.#isStepping = true;
    while (engine.hasWork) {
      await engine.step();
      await nextTurn();
    }
    this.#isStepping = false;
  }
}

async function asBackendCall<Result>(call: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof EngineError) throw toBackendFailure(error);
    throw error;
  }
}
