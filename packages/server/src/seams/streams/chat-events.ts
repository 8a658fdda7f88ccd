import type { EngineEvent } from '@trainyard/generation';
import { MIN_LOGPROB } from '@trainyard/protocol/fields';

import type { InferenceRequest, ModelInference } from '../contract/backends.ts';
import { type ParamOrigins, toBackendFailure } from '../faults/backend-failure.ts';
import type { AnswerHold } from './answer-memory.ts';

/** Tokens of a request so far; correct at any time, even if the client leaves midway. */
export interface TokenMeter {
  promptTokens: number;
  /** Over all choices. */
  completionTokens: number;
  /** Called when the generation is complete; the last event waits for it. Default: none. */
  complete?: () => Promise<void>;
}

export type StartedEvent = Extract<EngineEvent, { kind: 'started' }>;
export type PromptScoredEvent = Extract<EngineEvent, { kind: 'prompt_scored' }>;
export type OutputEvent =
  | Extract<EngineEvent, { kind: 'delta' }>
  | (Extract<EngineEvent, { kind: 'finished' }> & {
      /** Id of the record that keeps the sampled tokens. */
      recordId?: string;
    });
export type ParsedReply = NonNullable<Extract<EngineEvent, { kind: 'finished' }>['parsed']>;
export type ReplyDelta = NonNullable<OutputEvent['reply']>;
export type CompletedEvent = Extract<EngineEvent, { kind: 'completed' }>;

/** A generation with its first output, so that any refusal of the engine can still be a plain HTTP error. */
export interface OpenedGeneration {
  started: StartedEvent;
  /** Control tokens included; null unless requested. */
  promptText: string | null;
  /** Null unless the request asks for prompt scores. */
  scores: PromptScoredEvent | null;
  /** Deltas and finishes of all choices, then `completed`. Read it once; leaving the loop ends the request. */
  events: AsyncIterableIterator<OutputEvent | CompletedEvent, void>;
  /** Ends the request at any point, even before its events were read. */
  end(): Promise<void>;
}

export interface OutputRecorder {
  begin(promptTokenIds: readonly number[]): void;
  /** @returns the event to pass on */
  record(event: OutputEvent): Promise<OutputEvent>;
}

export interface GenerationOptions {
  /** Aborts the request. */
  signal: AbortSignal;
  /** Convert the prompt's ids back to text. Default false. */
  withPromptText?: boolean;
  /** Body field of the constraint. */
  constraintField?: string | undefined;
  /** Body field that asks for prompt scores. Default `prompt_logprobs`. */
  scoresField?: string | undefined;
  /** Records sampled outputs. Default: none. */
  recorder?: OutputRecorder | null;
  /** Reserves memory for an answer that is collected before it is sent. Default: it is streamed. */
  newHold?: (() => AnswerHold) | null;
  /** Outputs are held back until the answer is whole. Default false. */
  isWhole?: boolean;
  /** Converts a refusal, or a failure before the first output, to the reported error. Default: unchanged. */
  faultOf?: (error: unknown) => Promise<unknown>;
}

/**
 * Starts a request and waits for its first output.
 * @throws {BackendFailure} the engine's refusal or failure, or the result of `faultOf`; later failures come
 * from `events`
 */
export async function openGeneration(
  inference: ModelInference,
  request: InferenceRequest,
  meter: TokenMeter,
  options: GenerationOptions,
): Promise<OpenedGeneration> {
  const { signal, isWhole = false } = options;
  const source = inference.generate(isWhole ? { ...request, isWhole } : request, signal)[Symbol.asyncIterator]();
  try {
    const { constraintField: constraint, scoresField: promptLogprobs } = options;
    const origins = {
      prompt: request.prompt.kind === 'chat' ? 'messages' : 'prompt',
      constraint,
      promptLogprobs,
    } as const;
    const started = accept(await source.next(), signal, origins);
    if (started.kind !== 'started') throw new Error(`a generation began with the event ${started.kind}`);
    meter.promptTokens = started.promptTokenIds.length;
    const promptText = options.withPromptText ? await inference.detokenize(started.promptTokenIds, { signal }) : null;
    let scores: PromptScoredEvent | null = null;
    let first = accept(await source.next(), signal, origins);
    for (
      ;
      first.kind === 'started' || first.kind === 'prompt_scored';
      first = accept(await source.next(), signal, origins)
    )
      if (first.kind === 'prompt_scored') scores = first;
    options.recorder?.begin(started.promptTokenIds);
    const hold = options.newHold?.() ?? null;
    const context = { signal, meter, origins, recorder: options.recorder ?? null, hold, isWhole };
    const events = new Outputs(source, first, context);
    const end = async (): Promise<void> => void (await events.return());
    return { started, promptText, scores, events, end };
  } catch (error) {
    await source.return?.();
    throw options.faultOf === undefined ? error : await options.faultOf(error).catch(() => error);
  }
}

/**
 * All outputs, including the first. Hand-written, because every token of every stream passes here: a
 * generator takes three promises for each.
 */
class Outputs implements AsyncIterableIterator<OutputEvent | CompletedEvent, void> {
  readonly #source: AsyncIterator<EngineEvent>;
  readonly #signal: AbortSignal;
  readonly #meter: TokenMeter;
  readonly #origins: ParamOrigins;
  readonly #recorder: OutputRecorder | null;
  readonly #hold: AnswerHold | null;
  /** Unread outputs of a whole answer; null for a stream, and before the first is requested. */
  #whole: Iterator<OutputEvent | CompletedEvent> | null = null;
  readonly #isWhole: boolean;
  /** Null once it is taken. */
  #first: EngineEvent | null;
  #isOver = false;

  constructor(
    source: AsyncIterator<EngineEvent>,
    first: EngineEvent,
    { signal, meter, origins, recorder, hold, isWhole }: OutputContext,
  ) {
    this.#source = source;
    this.#first = first;
    this.#signal = signal;
    this.#meter = meter;
    this.#origins = origins;
    this.#recorder = recorder;
    this.#hold = hold;
    this.#isWhole = isWhole;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<OutputEvent | CompletedEvent, void>> {
    if (this.#isOver) return this.return();
    if (this.#isWhole) return this.#nextOfWhole();
    const first = this.#first;
    if (first === null) return this.#source.next().then(this.#took, this.#failed);
    this.#first = null;
    return Promise.resolve(first).then(this.#converted).catch(this.#failed);
  }

  /** Does nothing for a request that has ended. */
  async return(): Promise<IteratorReturnResult<void>> {
    this.#isOver = true;
    const left = await this.#source.return?.();
    // Counts tokens sampled before the reader left.
    if (typeof left?.value === 'number') this.#meter.completionTokens += left.value;
    return { done: true, value: undefined };
  }

  readonly #took = (
    result: IteratorResult<EngineEvent>,
  ): MaybePromise<IteratorResult<OutputEvent | CompletedEvent>> => {
    try {
      return this.#converted(accept(result, this.#signal, this.#origins));
    } catch (error) {
      return this.#failed(error);
    }
  };

  readonly #converted = (event: EngineEvent): MaybePromise<IteratorYieldResult<OutputEvent | CompletedEvent>> => {
    switch (event.kind) {
      case 'delta':
      case 'finished':
        this.#meter.completionTokens += event.tokenIds.length;
        return this.#held(event);
      case 'completed':
        return this.#completed(event);
      default:
        throw new Error(`the event ${event.kind} came in the middle of a generation`);
    }
  };

  #completed(event: CompletedEvent): MaybePromise<IteratorYieldResult<CompletedEvent>> {
    this.#meter.completionTokens = event.usage.completionTokens;
    this.#isOver = true;
    this.#hold?.complete();
    return this.#meter.complete === undefined
      ? { done: false, value: event }
      : this.#meter.complete().then(() => ({ done: false, value: event }));
  }

  #held(event: OutputEvent): MaybePromise<IteratorYieldResult<OutputEvent>> {
    const wait = this.#hold?.take(event) ?? null;
    return wait === null ? this.#passed(event) : wait.then(() => this.#passed(event));
  }

  #passed(event: OutputEvent): MaybePromise<IteratorYieldResult<OutputEvent>> {
    return this.#recorder === null ? { done: false, value: withLogits(event) } : this.#recorded(event, this.#recorder);
  }

  async #nextOfWhole(): Promise<IteratorResult<OutputEvent | CompletedEvent, void>> {
    try {
      this.#whole ??= (await this.#gathered())[Symbol.iterator]();
      const { value: event } = this.#whole.next() as IteratorYieldResult<OutputEvent | CompletedEvent>;
      return event.kind === 'completed' ? await this.#completed(event) : await this.#passed(event);
    } catch (error) {
      return await this.#failed(error);
    }
  }

  /**
   * Collects the outputs of the engine that completed the answer: outputs of a lost engine are not recorded,
   * counted or read.
   */
  async #gathered(): Promise<(OutputEvent | CompletedEvent)[]> {
    let events: OutputEvent[] = [];
    let numTokens = 0;
    for (let event = this.#first; ; event = null) {
      event ??= accept(await this.#source.next(), this.#signal, this.#origins);
      if (event.kind === 'completed') return [...events, event];
      if (event.kind === 'started') {
        this.#meter.completionTokens -= numTokens;
        this.#hold?.restart();
        events = [];
        numTokens = 0;
      }
      if (event.kind !== 'delta' && event.kind !== 'finished') continue;
      numTokens += event.tokenIds.length;
      this.#meter.completionTokens += event.tokenIds.length;
      await this.#hold?.take(event);
      events.push(event);
    }
  }

  async #recorded(event: OutputEvent, recorder: OutputRecorder): Promise<IteratorYieldResult<OutputEvent>> {
    try {
      return { done: false, value: withLogits(await recorder.record(event)) };
    } catch (error) {
      return await this.#failed(error);
    }
  }

  readonly #failed = async (error: unknown): Promise<never> => {
    await this.return();
    throw error;
  };
}

/**
 * Replaces log-probabilities by logits if the request asks for them. Its record keeps the log-probabilities.
 */
function withLogits(event: OutputEvent): OutputEvent {
  const { logprobs } = event;
  if (logprobs?.[0]?.logitSum === undefined) return event;
  return {
    ...event,
    logprobs: logprobs.map(({ logitSum = 0, top, ...sampled }) => ({
      ...toLogit(sampled, logitSum),
      top: top.map((other) => toLogit(other, logitSum)),
    })),
  };
}

/** A masked token has no logit and keeps its floor. */
function toLogit<Entry extends { logprob: number }>(entry: Entry, logitSum: number): Entry {
  return entry.logprob <= MIN_LOGPROB ? entry : { ...entry, logprob: entry.logprob + logitSum };
}

type MaybePromise<Value> = Value | Promise<Value>;

interface OutputContext {
  readonly signal: AbortSignal;
  readonly meter: TokenMeter;
  readonly origins: ParamOrigins;
  readonly recorder: OutputRecorder | null;
  readonly hold: AnswerHold | null;
  readonly isWhole: boolean;
}

function accept(result: IteratorResult<EngineEvent>, signal: AbortSignal, origins: ParamOrigins): EngineEvent {
  signal.throwIfAborted();
  if (result.done) throw new Error('a generation ended without its last event');
  if (result.value.kind !== 'failed') return result.value;
  throw toBackendFailure(result.value, origins);
}
