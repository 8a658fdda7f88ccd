import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import { join } from 'node:path';
import {
  type AdapterRef,
  type AdapterVersion,
  type BackendHealth,
  type BackendModel,
  checkFeatures,
  type ComputeTurns,
  DEFAULT_SAMPLE,
  EngineError,
  type RequestText,
  type SampleFeature,
  type SampleOutput,
  type SampleParams,
  type SampleTotals,
  type ScoredTokens,
  type ScoreParams,
  type TokenBackend,
  type TokenBackendCapabilities,
} from '@trainyard/backend';
import type { TokenEngine } from '../tokens/token-engine.ts';
import { TokenSampler } from './token-sampler.ts';

const FEATURES: readonly SampleFeature[] = [
  'adapters',
  'allowedTokenIds',
  'bannedSequences',
  'beamSearch',
  'logits',
  'logprobTokenIds',
  'priorities',
  'processedLogprobs',
  'promptLogprobs',
  'repetitionDetection',
  'seeds',
  'tracesSampling',
];

export interface EmbeddedTokenBackendParts {
  readonly modelId: string;
  /** Closed with the back end. */
  readonly engine: TokenEngine;
  /** File of an adapter version within its directory. Default `adapter.gguf`. */
  readonly adapterFile?: string;
  /** Turns for each step. Default null: the engine has the cores to itself. */
  readonly turns?: ComputeTurns | null;
  /** Called after the engine is closed, to close its dependencies. */
  readonly onClosed?: () => void;
}

export class EmbeddedTokenBackend implements TokenBackend {
  readonly specVersion = 1;
  readonly capabilities: TokenBackendCapabilities;
  readonly models: readonly BackendModel[];
  readonly #engine: TokenEngine;
  readonly #sampler: TokenSampler;
  readonly #adapterFile: string;
  readonly #onClosed: () => void;
  readonly #adapters = new Map<string, AdapterRef>();

  constructor({
    modelId,
    engine,
    turns = null,
    adapterFile = 'adapter.gguf',
    onClosed = () => {},
  }: EmbeddedTokenBackendParts) {
    const { limits, vocabSize } = engine;
    this.#engine = engine;
    this.#sampler = new TokenSampler(engine, turns);
    this.#onClosed = onClosed;
    this.#adapterFile = adapterFile;
    this.models = [{ id: modelId, contextLength: limits.maxContextTokens, vocabSize }];
    this.capabilities = {
      features: new Set(FEATURES),
      asksText: true,
      constraints: new Set(),
      maxRequests: limits.maxRequests,
      maxChoices: limits.maxChoices,
    };
  }

  async start(): Promise<void> {}

  async close(): Promise<void> {
    this.#engine.close();
    this.#onClosed();
  }

  async publish({ digest, directory }: AdapterVersion): Promise<null> {
    const reference = { digest, path: join(directory, this.#adapterFile) };
    if (!this.#adapters.has(digest)) await this.#engine.publish(reference);
    this.#adapters.set(digest, reference);
    return null;
  }

  async retire(digest: string): Promise<void> {
    this.#adapters.delete(digest);
    this.#engine.retire(digest);
  }

  async *sample(
    tokenIds: readonly number[],
    { adapter: digest, text, ...params }: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    checkFeatures({ ...params, adapter: digest, text }, this.capabilities);
    const adapter = this.#adapterOf(digest);
    return yield* this.#sampler.sample(tokenIds, { ...params, adapter, text: text && keptOpen(text) }, signal);
  }

  async score(tokenIds: readonly number[], params: ScoreParams, signal: AbortSignal): Promise<ScoredTokens> {
    const { numTop, ...rest } = params;
    const sampled = this.sample(tokenIds, { ...ONE_GREEDY_TOKEN, ...rest, promptLogprobs: numTop }, signal);
    for (;;) {
      const { done, value } = await sampled.next();
      if (done) return value.promptLogprobs ?? [];
    }
  }

  async health(): Promise<BackendHealth> {
    return { problem: null, stats: this.#engine.stats(), adapters: this.#engine.adapters };
  }

  #adapterOf(digest: string | null): AdapterRef | null {
    const adapter = digest === null ? null : this.#adapters.get(digest);
    if (adapter !== undefined) return adapter;
    throw new EngineError('engine.adapter_unreadable', `no adapter version ${digest} is published`, {
      param: 'adapter',
    });
  }
}

const ONE_GREEDY_TOKEN: Omit<SampleParams, keyof ScoreParams> = {
  ...DEFAULT_SAMPLE,
  maxTokens: 1,
  ignoreEos: true,
  sampling: { ...DEFAULT_SAMPLING, temperature: 0 },
  bannedSequences: [],
  constraint: null,
  text: null,
};

/** Wraps a text so that the engine does not close it; its owner does. */
function keptOpen(text: RequestText): RequestText {
  return {
    isMasking: text.isMasking,
    wholeConstraint: text.wholeConstraint,
    openChoice: () => text.openChoice(),
    textOf: (tokenIds) => text.textOf(tokenIds),
    close: () => {},
  };
}
