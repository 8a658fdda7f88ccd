import type { EngineEvent } from '@trainyard/generation';
import { MIN_LOGPROB } from '@trainyard/protocol/fields';

import type { InferenceRequest, ModelInference } from '../contract/backends.ts';
import { type ParamOrigins, toBackendFailure } from '../faults/backend-failure.ts';
import type { AnswerHold } from './answer-memory.ts';

/** Tokens of a request so far; right at every moment, also when the client leaves in the middle. */
export interface TokenMeter {
  promptTokens: number;
  /** Over all choices. */
  completionTokens: number;
  /** Called when the generation is complete; its last event waits for the result. Default: nothing. */
  complete?: () => Promise<void>;
}

export type StartedEvent = Extract<EngineEvent, { kind: 'started' }>;
export type PromptScoredEvent = Extract<EngineEvent, { kind: 'prompt_scored' }>;
export type OutputEvent =
  | Extract<EngineEvent, { kind: 'delta' }>
  | (Extract<EngineEvent, { kind: 'finished' }> & {
      /** Where what was sampled is kept. */
      recordId?: string;
    });
export type ParsedReply = NonNullable<Extract<EngineEvent, { kind: 'finished' }>['parsed']>;
export type ReplyDelta = NonNullable<OutputEvent['reply']>;
export type CompletedEvent = Extract<EngineEvent, { kind: 'completed' }>;

/** A generation whose first output is there, so that every refusal of the engine has had its chance to be a plain HTTP error. */
export interface OpenedGeneration {
  started: StartedEvent;
  /** The prompt as it was rendered, control tokens included; null unless asked for. */
  promptText: string | null;
  /** Null unless the request wants them first. */
  scores: PromptScoredEvent | null;
  /** Deltas and finishes of all choices, then `completed`. Read it once; leaving the loop ends the request. */
  events: AsyncIterableIterator<OutputEvent | CompletedEvent, void>;
  /** Ends the request wherever it is, also before any of its events was read. */
  end(): Promise<void>;
}

/** Sees every output of a request before its reader does. */
export interface OutputRecorder {
  begin(promptTokenIds: readonly number[]): void;
  /** @returns the event, or what is told in its place */
  record(event: OutputEvent): Promise<OutputEvent>;
}

/** Options of a generation that do not concern the engine. */
export interface GenerationOptions {
  /** Turn the prompt's ids back into text. Default false. */
  withPromptText?: boolean;
  /** The field of the body that the constraint came from. */
  constraintField?: string | undefined;
  /** And that for which the prompt is scored. Default `prompt_logprobs`. */
  scoresField?: string | undefined;
  /** Keeps what is sampled. Default: nothing is kept. */
  recorder?: OutputRecorder | null;
  /** Makes room for what the answer collects before it is sent. Default: it is sent as it comes. */
  newHold?: (() => AnswerHold) | null;
  /** Nothing of the answer is sent before its end: outputs are kept back until it is whole. Default false. */
  isWhole?: boolean;
  /** Makes of a refusal, or of a failure before the first output, what is told. Default: as it is. */
  faultOf?: (error: unknown) => Promise<unknown>;
}

/**
 * Starts a request and waits for its first output.
 *
 * @throws {BackendFailure} what the engine refused or failed with, or what `faultOf` makes of it; later failures come from `events`
 */
export async function openGeneration(
  inference: ModelInference,
  request: InferenceRequest,
  signal: AbortSignal,
  meter: TokenMeter,
  options: GenerationOptions = {},
): Promise<OpenedGeneration> {
  const { isWhole = false } = options;
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
    // Another engine may begin again.
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

/** All outputs from the first one on. By hand, as every token of every stream passes here: a generator takes three promises for each of them. */
class Outputs implements AsyncIterableIterator<OutputEvent | CompletedEvent, void> {
  readonly #source: AsyncIterator<EngineEvent>;
  readonly #signal: AbortSignal;
  readonly #meter: TokenMeter;
  readonly #origins: ParamOrigins;
  readonly #recorder: OutputRecorder | null;
  readonly #hold: AnswerHold | null;
  /** Outputs of a whole answer that have not been read; null where they go on as they come, and before the first is asked for. */
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
    return Promise.resolve(first).then(this.#told).catch(this.#failed);
  }

  /** A request that has ended has nothing left to be ended. */
  async return(): Promise<IteratorReturnResult<void>> {
    this.#isOver = true;
    const left = await this.#source.return?.();
    // Sampled before the reader left: computed is computed.
    if (typeof left?.value === 'number') this.#meter.completionTokens += left.value;
    return { done: true, value: undefined };
  }

  readonly #took = (
    result: IteratorResult<EngineEvent>,
  ): MaybePromise<IteratorResult<OutputEvent | CompletedEvent>> => {
    try {
      return this.#told(accept(result, this.#signal, this.#origins));
    } catch (error) {
      return this.#failed(error);
    }
  };

  readonly #told = (event: EngineEvent): MaybePromise<IteratorYieldResult<OutputEvent | CompletedEvent>> => {
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
    const room = this.#hold?.take(event) ?? null;
    return room === null ? this.#passed(event) : room.then(() => this.#passed(event));
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

  /** All outputs of the engine that has completed the answer: nothing of one that was lost is recorded, counted or read. */
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

/** The event with logits in place of log-probabilities, where the request wants them. Its record has the log-probabilities. */
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

/** A masked token has no logit: its floor stays. */
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
