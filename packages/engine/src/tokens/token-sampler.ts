import { setImmediate as nextTurn } from 'node:timers/promises';
import { checkPromptIds } from '../contract/check-prompt-ids.ts';
import { EngineError } from '../contract/errors.ts';
import type { EngineEvent, SampleRequest, TopLogprob, Usage } from '../contract/generate-request.ts';
import { validateRequest } from '../contract/validate-request.ts';
import type { Finish } from './request-text.ts';
import type { TokenEngine } from './token-engine.ts';

export type SampleParams = Omit<SampleRequest, 'requestId'>;

export interface SampledLogprob {
  readonly id: number;
  /** Natural log, floor -9999. See {@link LogprobsMode}. */
  readonly logprob: number;
}

/** What one step adds to one choice. */
export interface SampledTokens {
  readonly index: number;
  readonly tokenIds: readonly number[];
  /** One entry a token, when the request wants them. */
  readonly logprobs: readonly (SampledLogprob & { readonly top: readonly SampledLogprob[] })[] | null;
  /** null = the choice goes on. */
  readonly finish: Finish | null;
}

export interface SampleTotals extends Usage {
  /** When asked for; null for the first token. */
  readonly promptLogprobs?: readonly (readonly (SampledLogprob & { readonly rank: number })[] | null)[];
}

/** Token ids in, token ids and log-probabilities out: a {@link TokenEngine} without anybody who knows text, stepped while somebody samples. */
export class TokenSampler {
  readonly #engine: TokenEngine;
  #numRequests = 0;
  #isStepping = false;

  /** @param engine its only user from now on, but for its `close` */
  constructor(engine: TokenEngine) {
    this.#engine = engine;
  }

  /**
   * Samples `params.n` choices behind a prompt. Who stops reading, or aborts, ends the request.
   *
   * @returns the totals, behind the last choice's last token
   * @throws {EngineError} engine.invalid_request, context_length_exceeded; engine.overloaded when too many requests are in flight; engine.aborted; and
   *   what a request can fail with
   */
  async *sample(
    tokenIds: readonly number[],
    params: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampledTokens, SampleTotals, undefined> {
    const requestId = `sample-${++this.#numRequests}`;
    const events: EngineEvent[] = [];
    let arrived = Promise.withResolvers<void>();
    this.#submit({ ...params, requestId }, tokenIds, (event) => {
      events.push(event);
      arrived.resolve();
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
        while (events.length === 0) {
          await arrived.promise;
          arrived = Promise.withResolvers<void>();
        }
        const event = events.shift()!;
        if (event.kind === 'failed') throw new EngineError(event.code, event.message, { param: event.param });
        if (event.kind === 'completed') return totalsOf(event);
        if (event.kind === 'delta' || event.kind === 'finished') yield toSampledTokens(event);
      }
    } finally {
      signal.removeEventListener('abort', abort);
      abort();
    }
  }

  #submit(request: SampleRequest, promptIds: readonly number[], emit: (event: EngineEvent) => void): void {
    const { vocabSize, limits, size } = this.#engine;
    if (size >= limits.maxRequests) {
      throw new EngineError(
        'engine.overloaded',
        `at most ${limits.maxRequests} requests may be in flight, and there are ${size}: try again later`,
      );
    }
    validateRequest(request, { vocabSize, policy: 'priority', maxChoices: limits.maxChoices });
    checkPromptIds(request, promptIds, vocabSize, limits.maxContextTokens);
    this.#engine.submit({ request, promptIds, arrival: this.#numRequests, emit });
  }

  #wake(): void {
    if (!this.#isStepping) void this.#stepWhileThereIsWork();
  }

  /** One step a turn of the event loop. */
  async #stepWhileThereIsWork(): Promise<void> {
    this.#isStepping = true;
    while (this.#engine.hasWork) {
      await nextTurn();
      await this.#engine.step();
    }
    this.#isStepping = false;
  }
}

function toSampledTokens(event: Extract<EngineEvent, { kind: 'delta' | 'finished' }>): SampledTokens {
  const { index, tokenIds, logprobs } = event;
  return {
    index,
    tokenIds,
    logprobs: logprobs && logprobs.map((entry) => ({ ...idOf(entry), top: entry.top.map(idOf) })),
    finish: event.kind === 'finished' ? { reason: event.finishReason, stopReason: event.stopReason } : null,
  };
}

function totalsOf({ usage, promptLogprobs }: Extract<EngineEvent, { kind: 'completed' }>): SampleTotals {
  if (promptLogprobs === undefined) return usage;
  return {
    ...usage,
    promptLogprobs: promptLogprobs.map(
      (entries) => entries && entries.map(({ rank, ...entry }) => ({ ...idOf(entry), rank })),
    ),
  };
}

function idOf({ id, logprob }: TopLogprob): SampledLogprob {
  return { id, logprob };
}
