import { DEFAULT_SAMPLING, naming, type SamplingParams } from '@trainyard/protocol/fields';
import { checkFeatures } from '../check-features.ts';
import { checkPromptIds } from '../check-prompt-ids.ts';
import { refusal } from '../check-field.ts';
import { EngineError } from '../errors.ts';
import type { Finish } from '../request-text.ts';
import { type AdapterVersion, DEFAULT_SAMPLE } from '../sample-request.ts';
import type {
  BackendHealth,
  SampledLogprob,
  SampleOutput,
  SampleParams,
  SampleTotals,
  ScoredTokens,
  ScoreParams,
  TokenBackend,
  TokenBackendCapabilities,
} from '../token-backend.ts';
import { validateSampleRequest } from '../validate-sample-request.ts';

const VOCAB_SIZE = 261;
/** End token of `ByteVocabulary`. */
const END = 258;
const MODEL = { id: 'scripted', contextLength: 512, vocabSize: VOCAB_SIZE };

/** Fills `row`, `[261]`, with the logits after `tokens`. */
export type ScriptedLogits = (tokens: readonly number[], adapter: string | null, row: Float32Array) => void;

/**
 * Back end for tests: a function without steps, a cache or optional abilities. Tokens are bytes, `<|im_end|>`
 * 258 ends replies. It samples with its own seed, and returns the log-probabilities of the model.
 */
export class ScriptedTokenBackend implements TokenBackend {
  readonly specVersion = 1;
  readonly models = [MODEL];
  readonly capabilities: TokenBackendCapabilities;
  readonly #logits: ScriptedLogits;
  readonly #adapters = new Set<string>();
  readonly #closing = new AbortController();

  constructor(logits: ScriptedLogits, constraints: readonly string[] = []) {
    this.#logits = logits;
    this.capabilities = {
      features: new Set(['adapters', 'promptLogprobs', 'seeds']),
      asksText: false,
      constraints: new Set(constraints),
      maxRequests: 100,
      maxChoices: 16,
    };
  }

  async start(): Promise<void> {}
  async close(): Promise<void> {
    this.#closing.abort();
  }
  async publish({ digest }: AdapterVersion): Promise<string | null> {
    this.#adapters.add(digest);
    return null;
  }
  async retire(digest: string): Promise<void> {
    this.#adapters.delete(digest);
  }
  async health(): Promise<BackendHealth> {
    return { problem: this.#closing.signal.aborted ? 'it is closed' : null, stats: null };
  }

  async *sample(
    promptIds: readonly number[],
    params: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    this.#check(promptIds, params);
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    let completionTokens = 0;
    yield { kind: 'started', cachedTokens: 0 };
    const scores = this.#scoresAskedFor(promptIds, params);
    if (scores !== null && params.promptLogprobsFirst) yield { kind: 'prompt_scored', promptLogprobs: scores };
    for (let index = 0; index < params.n; index++) {
      const tokens = [...promptIds];
      const random = randomNumbers(Number((params.sampling.seed ?? 0n) % 100_000n) + index);
      for (let finish: Finish | null = null; finish === null; completionTokens++) {
        await Promise.resolve();
        if (ended.aborted) throw new EngineError('engine.aborted', 'the request was aborted');
        const logprobs = this.#logprobsAfter(tokens, params.adapter);
        const id = pick(logprobs, params.sampling.temperature, random());
        tokens.push(id);
        finish = endOf(id, tokens.length - promptIds.length, tokens.length, params);
        const entry = { id, logprob: logprobs[id]! };
        const others = ranked(logprobs).filter((other) => other.id !== id);
        const top = [entry, ...others].slice(0, entriesOf(params.logprobs ?? 0));
        const entries = params.logprobs === null ? null : [{ ...entry, top }];
        yield { kind: 'tokens', index, tokenIds: [id], logprobs: entries, finish };
      }
    }
    const totals = { promptTokens: promptIds.length, completionTokens, cachedTokens: 0 };
    return scores === null || params.promptLogprobsFirst ? totals : { ...totals, promptLogprobs: scores };
  }

  #scoresAskedFor(promptIds: readonly number[], { promptLogprobs, adapter }: SampleParams): ScoredTokens | null {
    return promptLogprobs === null ? null : this.#scores(promptIds, adapter, entriesOf(promptLogprobs));
  }

  async score(tokenIds: readonly number[], params: ScoreParams): Promise<ScoredTokens> {
    checkPromptIds(DEFAULT_SAMPLE, tokenIds, VOCAB_SIZE, MODEL.contextLength);
    return this.#scores(tokenIds, params.adapter, params.numTop);
  }

  #scores(tokenIds: readonly number[], adapter: string | null, numTop: number): ScoredTokens {
    return tokenIds.map((id, at) => {
      if (at === 0) return null;
      const logprobs = this.#logprobsAfter(tokenIds.slice(0, at), adapter);
      const all = ranked(logprobs).map((entry, place) => ({ ...entry, rank: place + 1 }));
      const actual = all.find((entry) => entry.id === id)!;
      return [actual, ...all.slice(0, numTop).filter((entry) => entry.id !== id)];
    });
  }

  #check(promptIds: readonly number[], params: SampleParams): void {
    const request = { ...params, adapter: null, requestId: '' };
    const { maxChoices } = this.capabilities;
    validateSampleRequest(request, { vocabSize: VOCAB_SIZE, policy: 'priority', maxChoices });
    checkPromptIds(request, promptIds, VOCAB_SIZE, MODEL.contextLength);
    checkFeatures(params, this.capabilities);
    for (const [name, value] of Object.entries(params.sampling)) {
      const standard: unknown = DEFAULT_SAMPLING[name as keyof SamplingParams];
      const isStandard = Array.isArray(value) ? value.length === 0 : value === standard;
      if (!isStandard && name !== 'temperature' && name !== 'seed') throw unsupported(name);
    }
    if (params.minTokens > 0) throw unsupported('minTokens');
    if (params.adapter !== null && !this.#adapters.has(params.adapter))
      throw new EngineError('engine.adapter_unreadable', `no adapter version ${params.adapter} is published`);
  }

  #logprobsAfter(tokens: readonly number[], adapter: string | null): Float32Array {
    const row = new Float32Array(VOCAB_SIZE);
    this.#logits(tokens, adapter, row);
    const largest = Math.max(...row);
    const logSum = largest + Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
    return row.map((logit) => Math.max(logit - logSum, -9999));
  }
}

/** @param asked -1 = all */
function entriesOf(asked: number): number {
  return asked === -1 ? VOCAB_SIZE : asked;
}

function unsupported(param: string): EngineError {
  return refusal(param, naming`${{ field: param }} is not supported by this sampling backend: remove it`);
}

/** End of a choice after its `length`th token; null = it continues. */
function endOf(id: number, length: number, total: number, params: SampleParams): Finish | null {
  if (params.stopTokenIds.includes(id)) return { reason: 'stop', stopReason: id };
  if (!params.ignoreEos && id === END) return { reason: 'stop', stopReason: null };
  return length >= (params.maxTokens ?? Infinity) || total >= MODEL.contextLength
    ? { reason: 'length', stopReason: null }
    : null;
}

function ranked(logprobs: Float32Array): SampledLogprob[] {
  return Array.from(logprobs, (logprob, id) => ({ id, logprob })).sort((a, b) => b.logprob - a.logprob || a.id - b.id);
}

/** @param temperature 0 = the likeliest */
function pick(logprobs: Float32Array, temperature: number, random: number): number {
  if (temperature === 0) return ranked(logprobs)[0]!.id;
  const weights = logprobs.map((logprob) => Math.exp(logprob / temperature));
  let rest = random * weights.reduce((sum, weight) => sum + weight, 0);
  return weights.findIndex((weight) => (rest -= weight) <= 0);
}

/** mulberry32. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
