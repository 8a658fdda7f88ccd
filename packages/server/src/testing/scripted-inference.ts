import type { BackendMember, EngineErrorCode, FinishReason, LoadedVersion, TokenLogprob } from '@trainyard/backend';
import type { EngineEvent, TokenizeInput } from '@trainyard/generation';
import { LINEAR_NAMES } from '@trainyard/trainer';

import type {
  InferenceBackend,
  InferenceRequest,
  ModelInference,
  ServedAdapter,
  Tokenized,
  Problem,
} from '../seams/contract/backends.ts';
import type { BaseModel } from '../seams/contract/base-models.ts';
import { BackendFailure } from '../seams/faults/backend-failure.ts';
import type { CompletedEvent, ParsedReply, ReplyDelta } from '../seams/streams/chat-events.ts';

/** Behaviour of the back end for one request. */
export type Script = (
  request: InferenceRequest,
  signal: AbortSignal,
) => AsyncIterable<EngineEvent> | Iterable<EngineEvent>;

/** Answers requests with scripted events and records the requests. */
export class ScriptedInference implements InferenceBackend, ModelInference {
  readonly models: readonly [BaseModel];
  readonly tokenizerFacts = () => ({ chatTemplate: '{{ messages }}', bosTokenId: 97, eosTokenId: 98, addsBos: false });
  readonly requests: InferenceRequest[] = [];
  script: Script = (request) => replies(request, [{ ids: [5, 6], text: 'hi' }]);
  lastTokenized: TokenizeInput | null = null;
  healthy = true;
  /** Events handed out, and generations that ended or were left by their reader. */
  numPulled = 0;
  numEnded = 0;

  constructor(
    model: BaseModel = {
      id: 'tiny/base',
      contextLength: 512,
      vocabSize: 1000,
      linearsByLayer: [LINEAR_NAMES, LINEAR_NAMES],
    },
  ) {
    this.models = [model];
  }

  of(): this {
    return this;
  }

  async *generate(request: InferenceRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    this.requests.push(request);
    try {
      for await (const event of this.script(request, signal)) {
        this.numPulled += 1;
        yield event;
      }
    } finally {
      this.numEnded += 1;
    }
  }

  /**
   * One id per character, its code, after a 1 if a start token is requested. A conversation is its contents.
   */
  async tokenize(input: TokenizeInput, options: { withTexts: boolean }): Promise<Tokenized> {
    this.lastTokenized = input;
    const text =
      input.kind === 'text' ? input.text : input.messages.map(({ content }) => JSON.stringify(content)).join('|');
    const ids = Array.from(text, (character) => character.codePointAt(0) ?? 0);
    const tokenIds = input.addSpecialTokens ? [1, ...ids] : ids;
    return { tokenIds, texts: options.withTexts ? tokenIds.map((id) => String.fromCodePoint(id)) : null };
  }

  async detokenize(tokenIds: readonly number[]): Promise<string> {
    const outside = tokenIds.find((id) => id >= this.models[0].vocabSize);
    if (outside !== undefined)
      throw new BackendFailure('engine.invalid_request', `token ids must be below 1000, got ${outside}`, 'tokens');
    return tokenIds.map((id) => String.fromCodePoint(id)).join('');
  }

  async tokenTexts(tokenIds: readonly number[]): Promise<string[]> {
    return tokenIds.map((id) => `<${id}>`);
  }

  /** False refuses requests before they are read. */
  hasCapacity = true;

  /** In order of the calls. */
  readonly retired: string[] = [];

  retire(digest: string): void {
    this.retired.push(digest);
  }

  /** In order of the calls. */
  readonly published: ServedAdapter[] = [];
  /** Reason if it loads none, or some of its servers do not; null: all do. */
  loads: (adapter: ServedAdapter) => Promise<string | null> = async () => null;

  async publish(_id: string, adapter: ServedAdapter): Promise<string | null> {
    const partial = await this.loads(adapter);
    this.published.push(adapter);
    return partial;
  }

  adapters(): readonly LoadedVersion[] {
    return this.published.map(({ digest }) => ({ digest, since: 1_000 }));
  }

  checkCapacity(): void {
    if (!this.hasCapacity) throw new BackendFailure('engine.overloaded', 'at most 2 requests may be in flight', null);
  }

  /** Servers that sample for it. */
  members: () => readonly BackendMember[] = () => [];

  problem(): Problem {
    return this.healthy ? null : 'it is being started';
  }

  stats(): null {
    return null;
  }

  get lastRequest(): InferenceRequest {
    const request = this.requests.at(-1);
    if (!request) throw new Error('no request has arrived');
    return request;
  }
}

/** A step of a choice: its tokens, their text, and its parsed reply. */
export interface ScriptedStep {
  ids: number[];
  text: string;
  reply?: Partial<ReplyDelta>;
}

/** End of every choice. */
export interface ScriptedEnd {
  finishReason?: FinishReason;
  stopReason?: string | number;
  /** Parsed parts of the reply; then every event has a `reply`. */
  parsed?: Partial<ParsedReply>;
  /** Reply parts of the last event. */
  reply?: Partial<ReplyDelta>;
  /** Reasoning tokens of one choice. */
  reasoningTokens?: number;
  promptLogprobs?: CompletedEvent['promptLogprobs'];
}

/**
 * Every choice gets the same steps, then token 2, which is an end of turn unless `end` overrides it; the
 * prompt is [1, 2, 3] with two tokens cached.
 */
export function* replies(
  request: Pick<InferenceRequest, 'n' | 'logprobs' | 'tracesSampling'>,
  steps: readonly ScriptedStep[],
  end: ScriptedEnd = {},
): Generator<EngineEvent> {
  const { parsed, promptLogprobs, reasoningTokens } = end;
  const read = (reply?: Partial<ReplyDelta>) =>
    parsed && { reply: { content: '', reasoning: '', toolCalls: [], ...reply } };
  yield { kind: 'started', promptTokenIds: [1, 2, 3], cachedTokens: 2 };
  for (const { ids, text, reply } of steps) {
    const output = { text, tokenIds: ids, logprobs: scriptedLogprobs(request, ids), ...read(reply) };
    for (let index = 0; index < request.n; index += 1) yield { kind: 'delta', index, ...output };
  }
  for (let index = 0; index < request.n; index += 1) {
    yield {
      kind: 'finished',
      index,
      text: '',
      tokenIds: [2],
      logprobs: scriptedLogprobs(request, [2]),
      ...read(end.reply),
      ...(request.tracesSampling ? { sampling: null } : {}),
      ...(parsed ? { parsed: { content: null, reasoning: null, toolCalls: [], ...parsed } } : {}),
      finishReason: end.finishReason ?? 'stop',
      stopReason: end.stopReason ?? null,
    };
  }
  const perChoice = steps.reduce((sum, step) => sum + step.ids.length, 1);
  const usage = { promptTokens: 3, completionTokens: perChoice * request.n, cachedTokens: 2 };
  yield {
    kind: 'completed',
    usage: reasoningTokens === undefined ? usage : { ...usage, reasoningTokens: reasoningTokens * request.n },
    ...(promptLogprobs ? { promptLogprobs } : {}),
  };
}

export function failure(code: EngineErrorCode, message: string, param: string | null = null): EngineEvent {
  return { kind: 'failed', code, message, param };
}

/** Token i has logprob −i/10 and the text `<i>`; the sampled one comes first in `top`, then 0, 1, 2 … */
function scriptedLogprobs(request: Pick<InferenceRequest, 'logprobs'>, ids: readonly number[]): TokenLogprob[] | null {
  if (request.logprobs === null) return null;
  const entry = (id: number) => ({ id, logprob: -id / 10, bytes: [60, 48 + (id % 10), 62], text: `<${id}>` });
  const mostLikely = Array.from({ length: 30 }, (_, rank) => rank);
  return ids.map((id) => ({
    ...entry(id),
    top: [id, ...mostLikely.filter((other) => other !== id)].slice(0, request.logprobs ?? 0).map(entry),
  }));
}
