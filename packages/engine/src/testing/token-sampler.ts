import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type ComputeTurns,
  fromFailure,
  type RequestText,
  type SampledEntry,
  type SampledLogprob,
  type SampleEvent,
  type SampleOutput,
  type SampleRequest,
  type SampleTotals,
  type ScoredTokens,
  type TokenLogprob,
  type TopLogprob,
} from '@trainyard/backend';
import { checkSampleRequest } from './check-sample-request.ts';
import type { TokenEngine } from '../tokens/token-engine.ts';

/** Numbers of unread outputs for pausing and resuming a request. */
const PAUSE_ABOVE_OUTPUTS = 256;
const RESUME_BELOW_OUTPUTS = 32;

export interface EngineSampleParams extends Omit<SampleRequest, 'requestId'> {
  readonly bannedSequences: readonly (readonly number[])[];
  /** null = no text. Closed with the request. */
  readonly text: RequestText | null;
}

/** Steps a {@link TokenEngine} while requests are in flight. */
export class TokenSampler {
  readonly #engine: TokenEngine;
  readonly #turns: ComputeTurns | null;
  #numRequests = 0;
  #isStepping = false;

  /**
   * @param engine used only here from now on, except for `close`
   * @param turns taken for each step. Default null: the engine has the cores to itself
   */
  constructor(engine: TokenEngine, turns: ComputeTurns | null = null) {
    this.#engine = engine;
    this.#turns = turns;
  }

  /**
   * Ending the iteration or aborting ends the request.
   *
   * @returns the totals, after the last choice's last token
   * @throws {EngineError} engine.invalid_request, context_length_exceeded; engine.overloaded if too many requests
   * are in flight; engine.aborted; and the errors of a request
   */
  async *sample(
    tokenIds: readonly number[],
    params: EngineSampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    const requestId = `sample-${++this.#numRequests}`;
    const { bannedSequences: banned, text, ...rest } = params;
    const request = { ...rest, requestId };
    checkSampleRequest(request, tokenIds, this.#engine);
    const inbox = new Inbox((isPaused) => {
      this.#engine.setPaused(requestId, isPaused);
      this.#wake();
    });
    this.#engine.submit({
      request,
      promptIds: tokenIds,
      arrival: this.#numRequests,
      isPaused: false,
      banned,
      text,
      reportsDraws: request.tracesSampling,
      emit: (event) => inbox.push(event),
    });
    const abort = (): void => {
      this.#engine.abort(requestId);
      this.#wake();
    };
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    this.#wake();
    try {
      for (;;) {
        const event = await inbox.next();
        if (event.kind === 'failed') throw fromFailure(event);
        if (event.kind === 'completed') return totalsOf(event);
        yield toOutput(event, text !== null);
      }
    } finally {
      signal.removeEventListener('abort', abort);
      abort();
    }
  }

  #wake(): void {
    if (!this.#isStepping) void this.#stepWhileThereIsWork();
  }

  async #stepWhileThereIsWork(): Promise<void> {
    this.#isStepping = true;
    while (this.#engine.hasWork) {
      await nextTurn();
      await this.#turns?.acquire();
      await this.#engine.step();
      this.#turns?.release();
    }
    this.#isStepping = false;
    this.#turns?.giveBack();
  }
}

class Inbox {
  #events: SampleEvent[] = [];
  #first = 0;
  #isPaused = false;
  #arrived = Promise.withResolvers<void>();
  readonly #setPaused: (isPaused: boolean) => void;

  constructor(setPaused: (isPaused: boolean) => void) {
    this.#setPaused = setPaused;
  }

  push(event: SampleEvent): void {
    this.#events.push(event);
    if (!this.#isPaused && this.#length > PAUSE_ABOVE_OUTPUTS) this.#pause(true);
    this.#arrived.resolve();
  }

  async next(): Promise<SampleEvent> {
    while (this.#length === 0) {
      await this.#arrived.promise;
      this.#arrived = Promise.withResolvers<void>();
    }
    const event = this.#events[this.#first++]!;
    if (this.#length === 0) {
      this.#events = [];
      this.#first = 0;
    }
    if (this.#isPaused && this.#length < RESUME_BELOW_OUTPUTS) this.#pause(false);
    return event;
  }

  get #length(): number {
    return this.#events.length - this.#first;
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#setPaused(isPaused);
  }
}

function toOutput(event: Exclude<SampleEvent, { kind: 'failed' | 'completed' }>, hasText: boolean): SampleOutput {
  if (event.kind === 'started') return { kind: 'started', cachedTokens: event.cachedTokens };
  if (event.kind === 'prompt_scored') return { kind: 'prompt_scored', promptLogprobs: scoresOf(event.promptLogprobs) };
  const { index, tokenIds, logprobs, text, draw } = event;
  return {
    kind: 'tokens',
    index,
    tokenIds,
    logprobs: logprobs && logprobs.map(entryOf),
    finish: event.kind === 'finished' ? { reason: event.finishReason, stopReason: event.stopReason } : null,
    ...(hasText ? { text } : {}),
    ...(draw === undefined ? {} : { draws: [draw ?? 'too_large'] }),
  };
}

function totalsOf({ usage, promptLogprobs }: Extract<SampleEvent, { kind: 'completed' }>): SampleTotals {
  return promptLogprobs === undefined ? usage : { ...usage, promptLogprobs: scoresOf(promptLogprobs) };
}

function scoresOf(
  promptLogprobs: NonNullable<Extract<SampleEvent, { kind: 'completed' }>['promptLogprobs']>,
): ScoredTokens {
  return promptLogprobs.map((entries) => entries && entries.map(({ rank, ...entry }) => ({ ...idOf(entry), rank })));
}

function entryOf({ top, logitSum, ...sampled }: TokenLogprob): SampledEntry {
  return { ...idOf(sampled), top: top.map(idOf), ...(logitSum === undefined ? {} : { logitSum }) };
}

function idOf({ id, logprob }: TopLogprob): SampledLogprob {
  return { id, logprob };
}
