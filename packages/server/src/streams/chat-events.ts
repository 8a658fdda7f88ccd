import type { EngineEvent } from '@trainyard/generation';

import type { InferenceRequest, ModelInference } from '../contract/backends.ts';
import { type ParamOrigins, toBackendFailure } from '../faults/backend-failure.ts';

/** Tokens of a request so far; right at every moment, also when the client leaves in the middle. */
export interface TokenMeter {
  promptTokens: number;
  /** Over all choices. */
  completionTokens: number;
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
  events: AsyncGenerator<OutputEvent | CompletedEvent, void>;
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
}

/**
 * Starts a request and waits for its first output.
 *
 * @throws {BackendFailure} what the engine refused or failed with; later failures come from `events`
 */
export async function openGeneration(
  inference: ModelInference,
  request: InferenceRequest,
  signal: AbortSignal,
  meter: TokenMeter,
  options: GenerationOptions = {},
): Promise<OpenedGeneration> {
  const source = inference.generate(request, signal)[Symbol.asyncIterator]();
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
    const next = accept(await source.next(), signal, origins);
    const scores = next.kind === 'prompt_scored' ? next : null;
    const first = scores === null ? next : accept(await source.next(), signal, origins);
    const recorder = options.recorder ?? null;
    recorder?.begin(started.promptTokenIds);
    const events = outputs(source, first, { signal, meter, origins, recorder });
    const end = async (): Promise<void> => {
      await events.return();
      // A generator that was left before its first step runs no `finally`.
      await source.return?.();
    };
    return { started, promptText, scores, events, end };
  } catch (error) {
    await source.return?.();
    throw error;
  }
}

async function* outputs(
  source: AsyncIterator<EngineEvent>,
  first: EngineEvent,
  {
    signal,
    meter,
    origins,
    recorder,
  }: { signal: AbortSignal; meter: TokenMeter; origins: ParamOrigins; recorder: OutputRecorder | null },
): AsyncGenerator<OutputEvent | CompletedEvent, void> {
  try {
    for (let event = first; ; event = accept(await source.next(), signal, origins)) {
      switch (event.kind) {
        case 'delta':
        case 'finished':
          meter.completionTokens += event.tokenIds.length;
          yield recorder === null ? event : await recorder.record(event);
          break;
        case 'completed':
          meter.completionTokens = event.usage.completionTokens;
          yield event;
          return;
        default:
          throw new Error(`the event ${event.kind} came in the middle of a generation`);
      }
    }
  } finally {
    await source.return?.();
  }
}

function accept(result: IteratorResult<EngineEvent>, signal: AbortSignal, origins: ParamOrigins): EngineEvent {
  signal.throwIfAborted();
  if (result.done) throw new Error('a generation ended without its last event');
  if (result.value.kind !== 'failed') return result.value;
  throw toBackendFailure(result.value, origins);
}
